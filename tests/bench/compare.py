#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed and memory of Hone beside PyTorch and ONNX Runtime, in one session, in turn.

usage: compare.py --hone PROGRAM --models FOLDER [--peer-run COMMAND] [options]

FOLDER/NAME/model.onnx are the models; Hone gets them converted to .hone. With --peer-run (a command that runs another where the peers are installed, for
example in a chroot) the peers' own timing program is asked: --peer-script, which takes --models, --peers, --modes,
--threads, --round and --quick and prints one JSON object a case with peer, model, batch, mode, threads, ms, p90,
load_ms, rss_mb and rss_base_mb. Without it only Hone is timed.

Each round runs Hone, then each peer, for one model after the other. A case's time is the median of its runs, and of
its rounds the better one for everybody; `spread` is how far the rounds lie apart. `ratio` is the best peer's time over
Hone's: above 1 Hone is faster. Memory: for Hone all that its process had resident; for peers the growth since
before the model was loaded, their libraries not counted. BENCH_NICE=-15 gives the timed processes priority over others.
"""
import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time

# Batches of inference; the last one is that of training.
MODELS = {"mlp": (1, 32), "lenet": (1, 32), "resnet18": (1, 8), "mobilenet_v2": (1, 8), "mobilenet_v3_small": (1, 8),
          "bert_tiny": (1, 8), "gpt_tiny": (1, 8), "bilstm": (1, 32), "unet": (1, 8), "ssd_tiny": (1, 8)}
INFER_PEERS = ("ort-c-1.30", "ort-c-1.23", "torch", "torch-freeze")
TRAIN_PEERS = ("torch", "torch-fused", "torch-stock")
# Peers that a row is not judged by: what PyTorch does without settings for its allocator is told apart.
BESIDE = ("torch-stock",)


def boosted():
    if os.environ.get("BENCH_NICE"):
        os.setsid()
        with open("/proc/self/autogroup", "w") as f:
            f.write(os.environ["BENCH_NICE"])


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    out = []
    for line in done.stdout.splitlines():
        try:
            out.append(json.loads(line))
        except ValueError:
            pass
    if not out:
        print(f"{shlex.join(command)}: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}", file=sys.stderr)
    return out


def converted(args, model):
    """The model as a .hone file, which is what an application ships."""
    path = os.path.join(args.work, f"{model}.hone")
    if not os.path.exists(path):
        subprocess.run([args.hone, "convert", f"{args.models}/{model}/model.onnx", "-o", path], check=True,
                       stdout=subprocess.DEVNULL)
    return path


def hone(args, model, mode, batch, threads):
    command = [args.hone, "bench", converted(args, model), "--json", "--batch", str(batch)]
    command += ["--threads", str(threads), "--seconds", "0.2" if args.quick else "1"]
    command += ["--train"] if mode == "train" else []
    return [dict(peer="hone", model=model, mode=mode, batch=batch, threads=threads, ms=r["median_ms"],
                 load_ms=r["load_ms"] + r["first_ms"], mb=r["peak_resident_bytes"] / 2**20)
            for r in run(command, preexec_fn=boosted)]


def peers(args, model, mode, threads, number):
    if not args.peer_run:
        return []
    wanted = [p for p in args.peers if p in (INFER_PEERS if mode == "infer" else TRAIN_PEERS)]
    command = shlex.split(args.peer_run) + ["python3", args.peer_script, "--models", model, "--modes", mode]
    command += ["--threads", str(threads), "--round", str(number), "--peers", ",".join(wanted)]
    rows = run(command + (["--quick"] if args.quick else [])) if wanted else []
    for r in rows:
        if "error" in r:
            print(f"{r['peer']} {model} {mode}: {r['error']}", file=sys.stderr)
    return [dict(r, mb=r["rss_mb"] - r["rss_base_mb"]) for r in rows if "ms" in r]


class Table:
    """Cases by (mode, model, batch, threads) and by who ran them."""

    def __init__(self):
        self.cases = {}

    def add(self, r):
        row = self.cases.setdefault((r["mode"], r["model"], r["batch"], r["threads"]), {})
        case = row.setdefault(r["peer"], {"ms": [], "mb": [], "load_ms": []})
        # Of two layouts of one peer in one round the faster counts.
        key = r.get("round")
        if case["ms"] and key is not None and case.get("round") == key:
            if r["ms"] >= case["ms"][-1]:
                return
            for name in ("ms", "mb", "load_ms"):
                case[name].pop()
        case["round"] = key
        for name in ("ms", "mb", "load_ms"):
            case[name].append(r.get(name) or math.nan)

    @staticmethod
    def best(row):
        """The fastest peer that counts, or None."""
        others = [(min(c["ms"]), p) for p, c in row.items() if p != "hone" and p not in BESIDE]
        return min(others)[1] if others else None

    def ratio(self, row):
        best = self.best(row)
        return min(row[best]["ms"]) / min(row["hone"]["ms"]) if best and "hone" in row else None

    def markdown(self):
        lines = []
        for mode, title in (("infer", "Inference"), ("train", "Training step (AdamW)")):
            rows = {k: v for k, v in self.cases.items() if k[0] == mode and "hone" in v}
            if not rows:
                continue
            names = sorted({p for r in rows.values() for p in r if p != "hone"})
            lines += [f"## {title}: milliseconds", "",
                      "| model | batch | threads | Hone | " + "".join(n + " | " for n in names) + "ratio | spread |",
                      "| --- | --: | --: | --: | " + "--: | " * len(names) + "--: | --: |"]
            ratios = {}
            for (_, model, batch, threads), row in rows.items():
                r = self.ratio(row)
                if r:
                    ratios.setdefault(threads, []).append(r)
                cells = [number(min(row["hone"]["ms"]))]
                cells += [number(min(row[n]["ms"])) if n in row else "-" for n in names]
                cells += [f"**{r:.2f}**" if r and r < 1 else f"{r:.2f}" if r else "-", f"{spread(row):.0%}"]
                lines.append(f"| {model} | {batch} | {threads} | " + " | ".join(cells) + " |")
            for threads, all_of in sorted(ratios.items()):
                mean = math.exp(sum(map(math.log, all_of)) / len(all_of))
                ahead = sum(r >= 1 for r in all_of)
                lines.append("")
                lines.append(f"{threads} thread{'s' * (threads > 1)}: geometric mean of the ratios {mean:.2f}, "
                             f"Hone ahead in {ahead} of {len(all_of)} rows.")
            lines += ["", f"## {title}: memory in MiB, load and first run in ms", "",
                      "| model | batch | Hone | best peer | Hone's first | peer's load |",
                      "| --- | --: | --: | --: | --: | --: |"]
            for (_, model, batch, threads), row in rows.items():
                best = self.best(row)
                if threads != min(k[3] for k in rows):
                    continue
                peer = row[best] if best else None
                lines.append(f"| {model} | {batch} | {number(min(row['hone']['mb']))} | "
                             + (f"{number(min(peer['mb']))} ({best})" if peer else "-")
                             + f" | {number(min(row['hone']['load_ms']))} | "
                             + (number(min(peer["load_ms"])) if peer else "-") + " |")
            lines.append("")
        return "\n".join(lines)


def number(v):
    return "-" if math.isnan(v) else f"{v:.3f}" if v < 1 else f"{v:.2f}" if v < 10 else f"{v:.1f}" if v < 100 else f"{v:.0f}"


def spread(row):
    """How far apart the rounds of Hone lie."""
    ms = row["hone"]["ms"]
    return (max(ms) - min(ms)) / min(ms)


def machine():
    try:
        with open("/proc/cpuinfo") as f:
            names = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
        return f"{len(names)} x {names[0]}"
    except (OSError, IndexError):
        return "an unknown machine"


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    listed = lambda s: [x for x in s.split(",") if x]
    ap.add_argument("--hone", required=True)
    ap.add_argument("--models", required=True, help="folder of the models")
    ap.add_argument("--names", type=listed, default=list(MODELS))
    ap.add_argument("--modes", type=listed, default=["infer", "train"])
    ap.add_argument("--threads", type=lambda s: [int(x) for x in listed(s)], default=[1, 2])
    ap.add_argument("--peers", type=listed, default=sorted({*INFER_PEERS, *TRAIN_PEERS}))
    ap.add_argument("--peer-run")
    ap.add_argument("--peer-script", default="/lab/bench.py")
    ap.add_argument("--rounds", type=int, default=2)
    ap.add_argument("--quick", action="store_true", help="short runs, one round: does it work at all")
    ap.add_argument("--json", help="write every case there")
    ap.add_argument("--out", help="write the tables there (Markdown)")
    args = ap.parse_args()
    unknown = [n for n in args.names if n not in MODELS] + [m for m in args.modes if m not in ("infer", "train")]
    if unknown:
        ap.error(f"unknown: {', '.join(unknown)}; models are {', '.join(MODELS)}, modes infer and train")
    if not args.peer_run:
        print("without --peer-run only Hone is timed", file=sys.stderr)
    rounds = 1 if args.quick else args.rounds
    todo = [(i, n, m, t) for i in range(rounds) for m in args.modes for n in args.names for t in args.threads]
    table, every, begin = Table(), [], time.time()
    holder = tempfile.TemporaryDirectory()
    args.work = holder.name
    for done, (i, name, mode, threads) in enumerate(todo):
        left = (time.time() - begin) / done * (len(todo) - done) if done else 0
        print(f"[{done + 1}/{len(todo)}] round {i + 1}: {name}, {mode}, {threads} threads"
              + (f", about {left / 60:.0f} min left" if done else ""), file=sys.stderr, flush=True)
        rows = [r for b in (MODELS[name] if mode == "infer" else MODELS[name][-1:])
                for r in hone(args, name, mode, b, threads)]
        rows += peers(args, name, mode, threads, i)
        for r in rows:
            table.add(r)
        every += rows
        if args.json:
            with open(args.json, "w") as f:
                json.dump({"machine": machine(), "cases": every}, f, indent=1)
    text = f"Machine: {machine()}.\n\n{table.markdown()}"
    if args.out:
        with open(args.out, "w") as f:
            f.write(text)
    print(text)
    return 0 if any("hone" in row for row in table.cases.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
