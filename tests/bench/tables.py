#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of a comparison:  tables.py FILE.json   (what compare.py --json wrote)

`ratio` is the best peer's time over Hone's: above 1 Hone is faster. PyTorch as it is installed (torch-stock: its
allocator gives large blocks back after every operation) is shown, and not among those that a row is judged by. `spread`
is how far apart the rounds lie, Hone's and the best peer's: differences below it say nothing. Memory: for Hone all that its process
had resident; for peers the growth since before the model was loaded, their libraries not counted.
"""
import json
import math
import statistics
import sys

BESIDE = ("torch-stock",)


class Case:
    """One model, batch and number of threads: who took how long."""

    def __init__(self):
        self.of = {}  # peer -> round -> the row of its faster layout

    def add(self, r):
        rounds = self.of.setdefault(r["peer"], {})
        if r["round"] not in rounds or r["ms"] < rounds[r["round"]]["ms"]:
            rounds[r["round"]] = r

    def median(self, peer, what="ms"):
        return statistics.median(r[what] for r in self.of[peer].values())

    def spread(self, peer):
        """How far its rounds lie apart."""
        ms = [r["ms"] for r in self.of[peer].values()]
        return (max(ms) - min(ms)) / min(ms)

    def best(self, among=lambda peer: True):
        """The fastest peer that counts, or None."""
        others = [(self.median(p), p) for p in self.of if p != "hone" and p not in BESIDE and among(p)]
        return min(others)[1] if others else None

    def ratio(self, peer, what="ms"):
        return self.median(peer, what) / self.median("hone", what) if peer in self.of else None


def number(v):
    return f"{v:.3f}" if v < 1 else f"{v:.2f}" if v < 10 else f"{v:.1f}" if v < 100 else f"{v:.0f}"


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def line(cells):
    return "| " + " | ".join(cells) + " |"


def header(names, texts=1):
    return [line(names), line(["---"] * texts + ["--:"] * (len(names) - texts))]


def times(cases):
    peers = sorted({p for c in cases.values() for p in c.of if p != "hone"})
    out = header(["model", "batch", "threads", "Hone", *peers, *(["ratio", "spread"] if peers else ["spread"])])
    for (model, batch, threads), c in cases.items():
        best = c.best()
        cells = [model, str(batch), str(threads), number(c.median("hone"))]
        cells += [number(c.median(p)) if p in c.of else "–" for p in peers]
        if peers:
            r = c.ratio(best)
            cells.append("–" if r is None else f"**{r:.2f}**" if r < 1 else f"{r:.2f}")
        spreads = [f"{c.spread(p):.0%}" for p in ("hone", best) if p and len(c.of[p]) > 1]
        cells.append(", ".join(spreads) or "–")
        out.append(line(cells))
    return out


def verdict(cases):
    out = []
    for threads in sorted({k[2] for k in cases}):
        rows = [(c.ratio(c.best()), f"{k[0]} b{k[1]}") for k, c in cases.items() if k[2] == threads and c.best()]
        if not rows:
            continue
        behind = [f"{name} ({r:.2f})" for r, name in sorted(rows) if r < 1]
        out += ["", f"{threads} thread{'s' * (threads > 1)}: geometric mean of the ratios **{mean([r for r, _ in rows]):.2f}**, "
                f"Hone ahead in {len(rows) - len(behind)} of {len(rows)} rows"
                + (f"; behind: {', '.join(behind)}." if behind else ".")]
    stock = [c.ratio("torch-stock") for c in cases.values() if "torch-stock" in c.of]
    if stock:
        out += ["", f"Against PyTorch as installed: geometric mean {mean(stock):.2f}, least {min(stock):.2f}."]
    return out


def resources(mode, cases):
    """Memory and the time to the first answer, with the fewest threads."""
    fewest = min(k[2] for k in cases)
    family = (lambda p: p.startswith("ort")) if mode == "infer" else (lambda p: p.startswith("torch"))
    name = "ONNX Runtime" if mode == "infer" else "PyTorch"
    out = header(["model", "batch", "Hone MiB", f"{name} MiB", "times", "Hone's first answer, ms", f"{name}'s", "times"])
    memory, first = [], []
    for (model, batch, threads), c in cases.items():
        if threads != fewest:
            continue
        best = c.best(family)
        cells = [model, str(batch)]
        for what, ratios in (("mb", memory), ("first_ms", first)):
            cells.append(number(c.median("hone", what)))
            if not best:
                cells += ["–", "–"]
                continue
            ratios.append(c.ratio(best, what))
            cells += [f"{number(c.median(best, what))} ({best})", f"{ratios[-1]:.1f}"]
        out.append(line(cells))
    if memory:
        out += ["", f"Geometric means: {name} takes {mean(memory):.1f} times Hone's memory and {mean(first):.1f} times its "
                f"time to the first answer; at least {min(memory):.1f} and {min(first):.1f} times."]
    return out


def limits(rows):
    """How close to the machine's measured peaks."""
    m = rows[0]["machine"]
    bf16 = m["bf16_gflop_per_s"]
    out = [f"{m['threads']} threads reach at most {m['f32_gflop_per_s']:.0f} Gflop/s in f32, "
           + (f"{bf16:.0f} in bf16, " if bf16 else "(no bf16 instructions,) ") + f"{m['memory_gb_per_s']:.0f} GB/s of memory.", ""]
    out += header(["model", "batch", "", "Gflop/s", "of peak", "bound by arithmetic: time", "of peak", "by memory: time", "of peak"])
    for r in rows:
        a, b = r["arithmetic_bound"], r["memory_bound"]
        out.append(line([r["model"], str(r["batch"]), "inference" if r["mode"] == "infer" else "training",
                         number(r["gflop_per_s"]), f"{r['gflop_per_s'] / r['machine']['f32_gflop_per_s']:.0%}",
                         f"{a['time_share']:.0%}", f"{a['of_peak']:.0%}", f"{b['time_share']:.0%}", f"{b['of_peak']:.0%}"]))
    return out


def markdown(result):
    grouped, versions, wrong = {}, {}, set()
    for r in result["cases"]:
        if "error" in r:
            wrong.add(f"{r['model']}, {r['mode']}, batch {r['batch']}, {r['peer']}: {r['error']}")
            continue
        kind = (r["mode"], r.get("real", False))
        grouped.setdefault(kind, {}).setdefault((r["model"], r["batch"], r["threads"]), Case()).add(r)
        if r.get("version"):
            versions[r["peer"]] = r["version"]
    out = [f"Machine: {result['machine']}."]
    if versions:
        out += ["Versions: " + ", ".join(f"{p} {v}" for p, v in sorted(versions.items())) + "."]
    if result.get("load", 0) > 0.5:
        out += [f"**Other work ran on it when this began (load {result['load']:.1f}): times with all its threads mean little.**"]
    if not result["peers"]:
        out += ["", "**The peers were not there: only Hone was timed.**"]
    for (mode, real), cases in sorted(grouped.items()):
        title = "Training step (AdamW)" if mode == "train" else "Inference, pretrained models" if real else "Inference"
        cases = {k: c for k, c in cases.items() if "hone" in c.of}
        if cases:
            out += ["", f"## {title}: milliseconds", "", *times(cases), *verdict(cases)]
            out += ["", f"## {title}: memory and first answer", "", *resources(mode, cases)]
    if result["limits"]:
        out += ["", "## Distance to the machine's limits", "", *limits(result["limits"])]
    if wrong:
        out += ["", "Not measured:", "", *(f"- {w}" for w in sorted(wrong))]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        print(markdown(json.load(f)), end="")
