#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed and memory of Hone beside PyTorch and ONNX Runtime, in one session, in turn.

usage: compare.py --hone PROGRAM --models FOLDER [--peer-run COMMAND] [options]

FOLDER/NAME/model.onnx are the models; Hone gets them converted to .hone, which is what an application ships.
--peer-run is a command that runs another where the peers are installed, for example in a chroot; --peer-root is that
place's root and --peer-script the timing program there (see peers.py). Without it only Hone is timed. --real names a
folder of further models, NAME/model.onnx, for inference with batch 1 beside ONNX Runtime alone.

In each round every case is run by Hone and then by each peer. A case's time is the median of its rounds, which are
medians of at least 20 runs; of PyTorch's two memory layouts the faster counts. BENCH_NICE=-15 gives the timed
processes priority over others. tables.py makes the tables from what --json wrote, and tells what they show.
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import tables

# Batches of inference; the last one is that of training.
MODELS = {"mlp": (1, 32), "lenet": (1, 32), "resnet18": (1, 8), "mobilenet_v2": (1, 8), "mobilenet_v3_small": (1, 8),
          "bert_tiny": (1, 8), "gpt_tiny": (1, 8), "bilstm": (1, 32), "unet": (1, 8), "ssd_tiny": (1, 8)}
QUICK = ["lenet", "mobilenet_v3_small", "bert_tiny"]
ORT = ("ort-c-1.30", "ort-c-1.23")
# The last of each take long or are measured beside: torch-compile takes up to a minute of compiling a case.
PEERS = {"infer": ORT + ("torch", "torch-freeze", "torch-compile"),
         "train": ("torch", "torch-fused", "torch-stock", "torch-compile")}
QUICK_PEERS = ["ort-c-1.30", "torch-fused"]  # those that are usually the best
DEFAULT_PEERS = [*ORT, "torch", "torch-freeze", "torch-fused", "torch-stock"]
LIMITS = ("resnet18", "bert_tiny")


def warn(text):
    print(text, file=sys.stderr, flush=True)


def boosted():
    if os.environ.get("BENCH_NICE"):
        os.setsid()
        with open("/proc/self/autogroup", "w") as f:
            f.write(os.environ["BENCH_NICE"])


def run(command, **more):
    """The JSON objects that a command prints, one a line, and what it complained of."""
    done = subprocess.run(command, capture_output=True, text=True, **more)
    out = []
    for line in done.stdout.splitlines():
        try:
            out.append(json.loads(line))
        except ValueError:
            pass
    return out, (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]


class Hone:
    def __init__(self, args, work):
        self.args, self.work = args, work

    def model(self, path, name):
        converted = os.path.join(self.work, f"{name}.hone")
        if not os.path.exists(converted):
            subprocess.run([self.args.hone, "convert", path, "-o", converted], check=True, stdout=subprocess.DEVNULL)
        return converted

    def bench(self, case, path, *more):
        command = [self.args.hone, "bench", self.model(path, case["model"]), "--json", "--batch", str(case["batch"])]
        command += ["--threads", str(case["threads"]), "--seconds", "0.2" if self.args.quick else "1", *more]
        command += ["--train"] if case["mode"] == "train" else []
        return run(command, preexec_fn=boosted)

    def time(self, case, path):
        rows, why = self.bench(case, path)
        if not rows:
            return dict(case, peer="hone", error=why)
        r = rows[0]
        return dict(case, peer="hone", ms=r["median_ms"], p90=r["p90_ms"], first_ms=r["load_ms"] + r["first_ms"],
                    mb=r["peak_resident_bytes"] / 2**20)

    def limits(self, case, path):
        """How much of the machine's peak a model reaches."""
        rows, why = self.bench(case, path, "--profile")
        if not rows:
            warn(f"{case['model']}: {why}")
            return []
        p = rows[0]["profile"]
        return [dict(case, gflop_per_s=rows[0]["gflop_per_s"], **{k: p[k] for k in (
            "machine", "arithmetic_bound", "memory_bound")})]


class Peers:
    """The peers, wherever they live."""

    def __init__(self, args):
        self.args = args
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers.py")) as f:
            self.program = f.read()
        self.slow = {}  # case -> peers whose layout loses clearly

    def time(self, case, folder):
        peers = [p for p in self.args.peers if p in PEERS[case["mode"]] and (not case["real"] or p in ORT)]
        if not self.args.peer_run or not peers:
            return []
        key = (case["mode"], case["model"], case["batch"], case["threads"])
        request = {"script": self.args.peer_script, "models": [case["model"]], "mode": case["mode"],
                   "batch": case["batch"], "threads": case["threads"], "peers": peers, "dir": folder,
                   "quick": self.args.quick, "skip": self.slow.get(key, [])}
        rows, why = run(shlex.split(self.args.peer_run) + ["python3", "-c", self.program, json.dumps(request)])
        if not rows:
            return [dict(case, peer="the peers", error=why)]
        self.forget_slower(key, rows)
        out = []
        for r in rows:
            if "error" in r:
                out.append(dict(case, peer=r["peer"], error=r["error"]))
                continue
            # ONNX Runtime's program times the creation of its session; its first run counts as a usual one.
            first = r["load_ms"] + (r["ms"] if r["peer"] in ORT else 0)
            out.append(dict(case, peer=r["peer"], version=r.get("version"), layout=r.get("layout"), ms=r["ms"],
                            p90=r["p90"], first_ms=first, mb=r["rss_mb"] - r["rss_base_mb"]))
        return out

    def forget_slower(self, key, rows):
        times = {(r["peer"], r["layout"]): r["ms"] for r in rows if "ms" in r and r.get("layout")}
        for (peer, layout), ms in times.items():
            if any(p == peer and ms > 1.2 * other for (p, _), other in times.items()):
                self.slow.setdefault(key, []).append([peer, layout])


def machine():
    try:
        with open("/proc/cpuinfo") as f:
            names = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
        return f"{len(names)} x {names[0]}"
    except (OSError, IndexError):
        return "an unknown machine"


def real_models(args, work):
    """name -> (path here, folder there) of the models under --real, copied to where the peers see them."""
    out = {}
    if not args.real:
        return out
    if not os.path.isdir(args.real):
        sys.exit(f"compare.py: --real {args.real} is no folder")
    there = work
    if args.peer_root:
        there = tempfile.mkdtemp(prefix="hone-bench-", dir=os.path.join(args.peer_root, "tmp"))
        args.remove.append(there)
    for name in sorted(os.listdir(args.real)):
        path = os.path.join(args.real, name, "model.onnx")
        if os.path.isfile(path):
            os.makedirs(os.path.join(there, name), exist_ok=True)
            shutil.copy(path, os.path.join(there, name, "model.onnx"))
            out[name] = (path, "/" + os.path.relpath(there, args.peer_root or "/"))
    return out


def cases(args, real):
    for mode in args.modes:
        for name in args.names:
            for batch in (MODELS[name] if mode == "infer" else MODELS[name][-1:]):
                if not args.batches or batch in args.batches:
                    for threads in args.threads:
                        yield {"mode": mode, "model": name, "batch": batch, "threads": threads, "real": False}
    if "infer" in args.modes:
        for name in real:
            for threads in args.threads:
                yield {"mode": "infer", "model": name, "batch": 1, "threads": threads, "real": True}


def measure(args, hone, peers, real, save):
    todo = [(i, c) for i in range(args.rounds) for c in cases(args, real)]
    unable, begin, rows = set(), time.time(), []
    for done, (number, case) in enumerate(todo):
        name = case["model"]
        if name in unable:
            continue
        left = (time.time() - begin) / done * (len(todo) - done) if done else 0
        warn(f"[{done + 1}/{len(todo)}] round {number + 1}: {name}, {case['mode']}, batch {case['batch']}, "
             f"threads {case['threads']}" + (f", about {left / 60:.0f} min left" if done else ""))
        path, folder = real[name] if case["real"] else (f"{args.models}/{name}/model.onnx", args.peer_models)
        of_case = [hone.time(case, path)]
        if "error" in of_case[0]:
            unable.add(name)
        else:
            of_case += peers.time(case, folder)
        for r in of_case:
            if "error" in r:
                warn(f"  {r['peer']}: {r['error']}")
        rows += [dict(r, round=number) for r in of_case]
        save(rows)
    return rows


def parse():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    listed = lambda s: [x for x in s.split(",") if x]
    numbers = lambda s: [int(x) for x in listed(s)]
    ap.add_argument("--hone", required=True)
    ap.add_argument("--models", required=True, help="folder of the models")
    ap.add_argument("--names", type=listed, help=f"of {','.join(MODELS)}; empty with --real: only those")
    ap.add_argument("--modes", type=listed, default=["infer", "train"])
    ap.add_argument("--batches", type=numbers, help="only these")
    ap.add_argument("--threads", type=numbers, default=[1, 2])
    ap.add_argument("--peers", type=listed,
                    help=f"default: {','.join(DEFAULT_PEERS)}; torch-compile as well")
    ap.add_argument("--peer-run", help="command that runs another where the peers are")
    ap.add_argument("--peer-root", default="", help="root of that place, for --real")
    ap.add_argument("--peer-script", default="/lab/bench.py", help="the timing program there")
    ap.add_argument("--peer-models", default="/lab-models", help="--models, as that place sees it")
    ap.add_argument("--real", help="folder of further models")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--quick", action="store_true", help="short runs of a few models, one round: a look, no measurement")
    ap.add_argument("--no-limits", action="store_true", help="leave out how close to the machine's limits it comes")
    ap.add_argument("--machine", default=machine(), help="what to call this machine")
    ap.add_argument("--json", help="write every case there")
    ap.add_argument("--out", help="write the tables there (Markdown)")
    args = ap.parse_args()
    if args.names is None:
        args.names = QUICK if args.quick else list(MODELS)
    if args.peers is None:
        args.peers = QUICK_PEERS if args.quick else DEFAULT_PEERS
    known = {p for some in PEERS.values() for p in some}
    unknown = ([n for n in args.names if n not in MODELS] + [m for m in args.modes if m not in PEERS]
               + [p for p in args.peers if p not in known])
    if unknown:
        ap.error(f"unknown: {', '.join(unknown)}; models are {', '.join(MODELS)}, modes infer and train, "
                 f"peers {', '.join(sorted(known))}")
    if args.quick:
        args.rounds = 1
    args.remove = []
    return args


def main():
    args = parse()
    if not args.peer_run:
        warn("No peers: without --peer-run only Hone is timed.")
    if os.getloadavg()[0] > 0.5:
        warn(f"Other work runs on this machine (load {os.getloadavg()[0]:.1f}): peers whose threads wait by spinning suffer most.")
    with tempfile.TemporaryDirectory() as work:
        try:
            result = {"machine": args.machine, "peers": bool(args.peer_run), "load": os.getloadavg()[0], "cases": [], "limits": []}

            def save(rows):
                result["cases"] = rows
                if args.json:
                    with open(args.json, "w") as f:
                        json.dump(result, f, indent=1)

            hone = Hone(args, work)
            rows = measure(args, hone, Peers(args), real_models(args, work), save)
            for name in LIMITS if not args.no_limits else ():
                for mode in args.modes if name in args.names else ():
                    case = {"mode": mode, "model": name, "batch": MODELS[name][-1], "threads": max(args.threads)}
                    result["limits"] += hone.limits(case, f"{args.models}/{name}/model.onnx")
            save(rows)
        finally:
            for folder in args.remove:
                shutil.rmtree(folder, ignore_errors=True)
    text = tables.markdown(result)
    if args.out:
        with open(args.out, "w") as f:
            f.write(text)
    print(text)
    return 0 if any("ms" in r and r["peer"] == "hone" for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
