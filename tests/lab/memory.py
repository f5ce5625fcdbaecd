#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of training steps: Hone without a limit and with limits, PyTorch as it is and with checkpointing.

usage: memory.py --hone PROGRAM --models FOLDER [--peer-run COMMAND --peer-root FOLDER --peer-models FOLDER]
                 [--batches 1,8,32] [--names resnet18,...] [--seconds S] [--largest] [--out FILE.json]

FOLDER/NAME/model.onnx are the models. With --peer-run, PyTorch runs by that command (for example one that enters a
chroot, whose root is --peer-root) with models.py from --peer-models. All cases run in turn in this one session.

Columns: `process` is what the Hone process had resident at most, program and model file included; `plan` what the plan
promised: weights, AdamW's state, gradients, activations, scratch. `all kept` is the same with --recompute-share 0. A limit
of p % leaves the weights and the optimizer's state alone and gives p % of the rest of that; its times compare with `all kept`. PyTorch's figure is the growth since before its model was built.
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys

MIB = 1 << 20
SHARES = (50, 35, 25)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    line = done.stdout.strip().splitlines()[-1:] or [""]
    try:
        return json.loads(line[0]), ""
    except ValueError:
        return None, (done.stderr.strip().splitlines() or ["no answer"])[-1]


class Bench:
    def __init__(self, args):
        self.args = args

    def hone(self, name, batch, limit=None, plan_only=False, keeps_all=False):
        command = [self.args.hone, "bench", f"{self.args.models}/{name}/model.onnx", "--train", "--json"]
        command += ["--batch", str(batch), "--threads", "2", "--seconds", str(self.args.seconds)]
        if limit is not None:
            command += ["--memory-limit", str(limit)]
        if plan_only:
            command.append("--plan-only")
        if keeps_all:
            command += ["--recompute-share", "0"]
        return run(command)

    def peer(self, name, batch, mode):
        if not self.args.peer_run:
            return None, "no peer"
        command = shlex.split(self.args.peer_run)
        return run(command + ["python3", "/tmp/memory_peer.py", "--models", self.args.peer_models, name, str(batch), mode])

    def largest(self, name, limit):
        """The largest batch that can be planned within `limit` bytes."""
        low, high = 0, 1
        while high <= 65536 and self.hone(name, high, limit, True)[0]:
            low, high = high, high * 2
        while high - low > max(1, low // 20):
            middle = (low + high) // 2
            if self.hone(name, middle, limit, True)[0]:
                low = middle
            else:
                high = middle
        return low


def mib(n):
    return f"{n / MIB:.0f}" if n >= 10 * MIB else f"{n / MIB:.1f}"


def say(row):
    print("| " + " | ".join(row) + " |", flush=True)


def peaks(bench, names, batches):
    say(["model", "batch", "Hone ms", "process MiB", "plan MiB", "all kept ms", "plan MiB"] + [f"at {p} %: MiB, time" for p in SHARES]
        + ["PyTorch ms", "MiB", "checkpointed ms", "MiB", "PyTorch / Hone memory"])
    say(["---"] + ["--:"] * (11 + len(SHARES)))
    results = []
    for name in names:
        for batch in batches:
            default, why = bench.hone(name, batch)
            free, _ = bench.hone(name, batch, keeps_all=True)
            if not default or not free:
                say([name, str(batch), why])
                continue
            row = [name, str(batch), f"{default['median_ms']:.0f}", mib(default["peak_resident_bytes"]),
                   mib(default["plan_peak_bytes"]), f"{free['median_ms']:.0f}", mib(free["plan_peak_bytes"])]
            result = {"model": name, "batch": batch, "default": default, "free": free}
            for share in SHARES:
                rest = free["plan_peak_bytes"] - free["state_bytes"]
                bound, _ = bench.hone(name, batch, free["state_bytes"] + rest * share // 100)
                result[f"{share}"] = bound
                row.append(f"{mib(bound['plan_peak_bytes'])}, x{bound['median_ms'] / free['median_ms']:.2f}" if bound else "–")
            for mode in ("eager", "checkpoint"):
                peer, _ = bench.peer(name, batch, mode)
                result[mode] = peer
                row += [f"{peer['ms']:.0f}", mib(peer["peak_bytes"])] if peer else ["–", "–"]
            eager = result["eager"]
            row.append(f"{eager['peak_bytes'] / default['peak_resident_bytes']:.1f}" if eager else "–")
            say(row)
            results.append(result)
    return results


def batches_within(bench, names, results):
    limits = (256 * MIB, 512 * MIB, 1024 * MIB)
    say(["largest batch within"] + [f"{n // MIB} MiB: Hone / PyTorch" for n in limits])
    say(["---"] + ["--:"] * len(limits))
    for name in names:
        known = sorted((r["batch"], r["eager"]["peak_bytes"]) for r in results if r["model"] == name and r.get("eager"))
        row = [name]
        for limit in limits:
            peer = "–"
            if len(known) > 1:  # on the line through the two largest batches measured
                (a, x), (b, y) = known[-2:]
                peer = max(0, int(a + (limit - x) * (b - a) / max(1, y - x)))
            row.append(f"{bench.largest(name, limit)} / {peer}")
        say(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--peer-run", default="")
    parser.add_argument("--peer-root", default="")
    parser.add_argument("--peer-models", default="/lab")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--names", default="resnet18,mobilenet_v2,bert_tiny,gpt_tiny,unet")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.peer_run:
        here = os.path.dirname(os.path.abspath(__file__))
        shutil.copy(os.path.join(here, "memory_peer.py"), os.path.join(args.peer_root or "/", "tmp"))
    bench, names = Bench(args), args.names.split(",")
    results = peaks(bench, names, [int(b) for b in args.batches.split(",")])
    if args.largest:
        print()
        batches_within(bench, names, results)
    if args.out:
        with open(args.out, "w") as f:
            json.dump(results, f, indent=1)
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
