#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How cost grows with batch, length, depth and threads: one picture each, and whether anything grows faster than its work.

usage: growth.py --hone PROGRAM --models FOLDER --out FOLDER [--quick] [--only batch,length,depth,threads]

--models is what `hone_bench_models FOLDER` (built with the tests) makes. A step from one size to the next is flagged
when the time of a run, or of planning, grows by 15 % more than the size does and,
for a run, more than its arithmetic does: attention grows with the square of the length, and may. Threads are flagged
when more of them take longer. Ends with 1 when something is flagged.
"""
import argparse
import json
import math
import os
import subprocess
import sys

SLACK = 1.15
# A size is flagged by the share of time that grows: below this many ms fixed costs and the clock decide.
SMALL_MS = 0.2
SERIES = {"inference": "#2a6f97", "training": "#c1121f", "planning inference": "#89c2d9", "planning training": "#f4978e"}


def charts(args):
    """name -> (what grows, sizes, and of a size: model, batch, threads)."""
    short = (lambda s: s[:3]) if args.quick else (lambda s: s)
    most = os.cpu_count() or 1
    threads = sorted({min(2**i, most) for i in range(12)})
    return {
        "batch": ("batch size, resnet18", short([1, 2, 4, 8, 16]), lambda n: ("resnet18", n, 1)),
        "length": ("sequence length, encoder of 2 layers", short([32, 64, 128, 256, 512, 1024]),
                   lambda n: (f"encoder_{n}_2", 4, 1)),
        "depth": ("layers, encoder of length 64", short([1, 2, 4, 8, 16, 32]), lambda n: (f"encoder_64_{n}", 4, 1)),
        "threads": ("threads, resnet18 with batch 4", threads, lambda n: ("resnet18", 4, n)),
    }


def measure(args, model, batch, threads, train):
    command = [args.hone, "bench", f"{args.models}/{model}.hone", "--json", "--batch", str(batch), "--threads", str(threads)]
    command += ["--seconds", "0.1" if args.quick else "0.5"] + (["--train"] if train else [])
    runs = []
    for _ in range(1 if args.quick else 3):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"growth.py: {' '.join(command)}: {done.stderr.strip()}")
        r = json.loads(done.stdout)
        runs.append({"ms": r["median_ms"], "plan_ms": r["plan_ms"], "flops": r["flops"]})
    # Other work makes runs slower, nothing makes them faster.
    return {what: min(r[what] for r in runs) for what in runs[0]}


def flags(chart, sizes, points):
    """What grew faster than it should from one size to the next, as sentences."""
    out = []
    for series, of in points.items():
        for (x, a), (y, b) in zip(zip(sizes, of), zip(sizes[1:], of[1:])):
            if b["ms"] < SMALL_MS:
                continue
            if chart == "threads":
                if b["ms"] > SLACK * a["ms"]:
                    out.append(f"{series}: {y} threads take {b['ms']:.3g} ms, {x} take {a['ms']:.3g}")
                continue
            allowed = {"ms": max(y / x, b["flops"] / a["flops"]), "plan_ms": y / x}
            for what, name in (("ms", "a run"), ("plan_ms", "planning")):
                # Planning does not depend on how large tensors are: it may grow with depth alone.
                if b[what] > SLACK * allowed[what] * max(a[what], SMALL_MS):
                    out.append(f"{series}: {name} takes {a[what]:.3g} ms at {x} and {b[what]:.3g} ms at {y}: "
                               f"x{b[what] / a[what]:.2f} for x{allowed[what]:.2f}")
    return out


def picture(title, sizes, points):
    """A picture with logarithmic axes; a dotted line grows as the size does."""
    width, height, left, bottom, top = 640, 420, 70, 50, 40
    lines = {s: [p["ms"] for p in of] for s, of in points.items()}
    lines |= {f"planning {s}": [p["plan_ms"] for p in of] for s, of in points.items()}
    values = [v for of in lines.values() for v in of]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    span = max(math.log(sizes[-1] / sizes[0]), 1e-9)
    at_x = lambda n: left + (width - left - 170) * math.log(n / sizes[0]) / span
    at_y = lambda v: height - bottom - (height - bottom - top) * (math.log10(v) - low) / max(high - low, 1)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>', f'<text x="{left}" y="22" font-size="14">ms by {title}</text>']
    for power in range(low, high + 1):
        y = at_y(10.0**power)
        out.append(f'<line x1="{left}" x2="{width - 170}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for n in sizes:
        out.append(f'<text x="{at_x(n):.1f}" y="{height - bottom + 18}" text-anchor="middle">{n}</text>')
    for row, (name, of) in enumerate(lines.items()):
        path = " ".join(f"{at_x(n):.1f},{at_y(v):.1f}" for n, v in zip(sizes, of))
        dash = ' stroke-dasharray="4 3"' if name.startswith("planning") else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{SERIES[name]}" stroke-width="2"{dash}/>')
        out.append(f'<text x="{width - 160}" y="{top + 18 * row + 12}" fill="{SERIES[name]}">{name}</text>')
    first = lines["inference"][0]
    ends = [(sizes[0], first), (sizes[-1], min(first * sizes[-1] / sizes[0], 10.0**high))]
    ends[1] = (sizes[0] * ends[1][1] / first, ends[1][1])
    out.append('<polyline points="' + " ".join(f"{at_x(n):.1f},{at_y(v):.1f}" for n, v in ends)
               + '" fill="none" stroke="#888" stroke-dasharray="1 3"/>')
    out.append(f'<text x="{width - 160}" y="{top + 18 * len(lines) + 12}" fill="#888">as the size grows</text></svg>')
    return "\n".join(out) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--hone", required=True)
    ap.add_argument("--models", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--quick", action="store_true", help="three sizes, short runs: does it work at all")
    ap.add_argument("--only", default="batch,length,depth,threads")
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)
    known, found = charts(args), []
    for chart in args.only.split(","):
        if chart not in known:
            ap.error(f"unknown: {chart}; there are {', '.join(known)}")
        title, sizes, at = known[chart]
        points = {"inference": [], "training": []}
        for n in sizes:
            print(f"{title}: {n}", file=sys.stderr, flush=True)
            for series, train in (("inference", False), ("training", True)):
                points[series].append(measure(args, *at(n), train))
        with open(f"{args.out}/growth_{chart}.svg", "w") as f:
            f.write(picture(title, sizes, points))
        print(f"\n| {title} | " + " | ".join(map(str, sizes)) + " |\n| --- |" + " --: |" * len(sizes))
        for series, of in points.items():
            for what, name in (("ms", f"{series}, ms"), ("plan_ms", f"planning {series}, ms")):
                print(f"| {name} | " + " | ".join(f"{p[what]:.3g}" for p in of) + " |")
        for text in flags(chart, sizes, points):
            found.append(text)
            print(f"- FASTER THAN ITS WORK, {chart}: {text}")
    print(f"\n{len(found)} steps grow faster than their work")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
