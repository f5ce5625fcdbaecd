#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges what run.sh let hone write: check.py MODELS WORK NAME...   (numpy; onnxruntime for the exported model)

MODELS/NAME has model.onnx, input.npz, output.npz, train.npz, meta.json; WORK/NAME has hone's answers:
  run/, again/       outputs (.npy) of the ONNX model and of its .hone form
  export.onnx        the .hone form exported again
  sgd.jsonl, adamw.jsonl, grad.npz, and the same of a training in double precision: sgd64.jsonl, adamw64.jsonl, grad64.npz
  STEP.rc, STEP.err  exit code and messages of each command
Prints one table row per model, below it why it failed, and last "N passed, N failed"; exit status 1 if any failed.
"""
import json, os, subprocess, sys
import numpy as np

OUT_TOL = 1e-4           # of the largest element of the reference
GRAD_TOL, GRAD_SLACK = 1e-4, 4.0
LOSS_TOL, LOSS_SLACK = 1e-5, 4.0
F64_TOL = 1e-7           # of gradients in double precision: the reference's are compared through its own error


class Bad(Exception):
    pass


def output(folder, name):
    """An output that hone run wrote: named as the output, with "_" for what a file name cannot hold."""
    plain = lambda s: "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in s)
    files = os.listdir(folder) if os.path.isdir(folder) else []
    for f in files:
        if plain(f) == plain(name) + ".npy":
            return load(f"{folder}/{f}")
    raise Bad(f"no file for output {name}, only {files}")


def ran(work, step):
    """Raises Bad with hone's own words unless this step's command ended well."""
    try:
        rc = open(f"{work}/{step}.rc").read().strip()
    except FileNotFoundError:
        raise Bad("was not run")
    if rc != "0":
        err = [l for l in open(f"{work}/{step}.err", errors="replace").read().splitlines() if l.strip()]
        raise Bad(f"exit {rc}: {(err or ['no message'])[-1].strip()[:200]}")


def load(path):
    try:
        return np.load(path)
    except FileNotFoundError:
        raise Bad(f"{os.path.basename(path)} is missing")
    except Exception as e:
        raise Bad(f"{os.path.basename(path)} does not load: {e}")


def distance(got, want, what):
    """Largest difference, relative to the largest element of want."""
    if got.shape != want.shape or got.dtype != want.dtype:
        raise Bad(f"{what} is {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}")
    if not np.all(np.isfinite(got)):
        raise Bad(f"{what} has {np.size(got) - np.isfinite(got).sum()} elements that are not finite")
    d = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return float(d.max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))


def check_run(ref, work):
    ran(work, "run")
    want = load(f"{ref}/output.npz")
    worst = max(distance(output(f"{work}/run", k), want[k], k) for k in want.files)
    if worst > OUT_TOL:
        raise Bad(f"differs by {worst:.2e} of the largest output, allowed {OUT_TOL:.0e}")
    return f"{worst:.1e}"


def check_convert(ref, work):
    """The .hone file must give the very bits that the .onnx file gave."""
    ran(work, "convert"), ran(work, "again")
    for k in load(f"{ref}/output.npz").files:
        a, b = output(f"{work}/run", k), output(f"{work}/again", k)
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            n = int(np.sum(a != b)) if a.shape == b.shape else "all"
            raise Bad(f"{k}: {n} of {a.size} elements have other bits than the .onnx file gave")
    return "same bits"


def onnxruntime(model, inputs, out):
    """Runs in a process of its own: a broken model may take ONNX Runtime down with it."""
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = 1, 3
    s = ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])
    names = [v.name for v in s.get_outputs()]
    x = np.load(inputs)
    np.savez(out, **dict(zip(names, s.run(names, {i.name: x[i.name] for i in s.get_inputs()}))))


def check_export(ref, work):
    ran(work, "export")
    got = {}
    for k, model in dict(before=f"{ref}/model.onnx", after=f"{work}/export.onnx").items():
        p = subprocess.run([sys.executable, __file__, "--ort", model, f"{ref}/input.npz", f"{work}/ort_{k}.npz"], stderr=subprocess.PIPE, text=True)
        if p.returncode:
            err = [l for l in p.stderr.splitlines() if l.strip() and "Schema error" not in l]
            if "No module named 'onnxruntime'" in p.stderr:
                return "no ORT here"
            raise Bad(f"ONNX Runtime on the model {k} the round trip: {(err or [f'status {p.returncode}'])[-1][:300]}")
        got[k] = load(f"{work}/ort_{k}.npz")
    want = load(f"{ref}/output.npz")
    if set(got["after"].files) != set(want.files):
        raise Bad(f"outputs are {got['after'].files}, expected {want.files}")
    worst = max(distance(got["after"][k], want[k], k) for k in want.files)
    moved = max(distance(got["after"][k], got["before"][k], k) for k in want.files)
    if worst > OUT_TOL:
        raise Bad(f"ONNX Runtime on it differs by {worst:.2e} of the largest output, allowed {OUT_TOL:.0e}")
    return f"{moved:.1e}"


def gradients(ref, work, step, file):
    """-> (name, the reference's gradient, Hone's, PyTorch's own fp32 error) of each parameter, Hone's as the type it wrote"""
    ran(work, step)
    z, got = load(f"{ref}/train.npz"), load(f"{work}/{file}.npz")
    names = [n.decode() for n in z["params"]]
    missing = [n for n in names if n not in got.files]
    if missing:
        raise Bad(f"{len(missing)} of {len(names)} gradients are missing, first {missing[0]}")
    return [(n, z[f"grad/{n}"].astype(np.float64), got[n], own) for n, own in zip(names, z["gradrel"])]


def whole_norm(gradients):
    return np.sqrt(sum(np.sum(g.astype(np.float64) ** 2) for g in gradients))


def check_gradients(ref, work):
    """-> the worst error as a share of what is allowed.  gradrel is PyTorch's own fp32 error: large where ReLU masks flip."""
    all_of = gradients(ref, work, "sgd", "grad")
    whole = whole_norm(want for _, want, _, _ in all_of)
    bad, worst = [], 0.0
    for n, want, have, own in all_of:
        have = have.astype(np.float64)
        if want.shape != have.shape:
            raise Bad(f"gradient of {n} is {list(have.shape)}, expected {list(want.shape)}")
        err = np.linalg.norm(have - want) / max(np.linalg.norm(want), 1e-6 * whole)
        allowed = max(GRAD_TOL, GRAD_SLACK * own)
        worst = max(worst, err / allowed) if np.isfinite(err) else np.inf
        if not err <= allowed:
            bad.append((err / allowed, n, err, allowed))
    if bad:
        _, n, err, allowed = max(bad)
        raise Bad(f"{len(bad)} of {len(all_of)} gradients are off, worst {n}: {err:.2e}, allowed {allowed:.2e}")
    return f"{worst:.2f}"


def check_gradients_f64(ref, work):
    """-> the worst difference of two errors.

    The reference holds PyTorch's fp32 gradients and their distance to its fp64 ones, gradrel. Hone's fp64 gradients must be
    exactly that far away from them, whatever flipped in the fp32 run.
    """
    all_of = gradients(ref, work, "sgd64", "grad64")
    floor = 1e-6 * whole_norm(have for _, _, have, _ in all_of)
    bad, worst = [], 0.0
    for n, want, have, own in all_of:
        if want.shape != have.shape or have.dtype != np.float64:
            raise Bad(f"gradient of {n} is {have.dtype}{list(have.shape)}, expected float64{list(want.shape)}")
        err = np.linalg.norm(have - want) / max(np.linalg.norm(have), floor)
        off = abs(err - own) if np.isfinite(err) else np.inf
        worst = max(worst, off)
        if not off <= F64_TOL:
            bad.append((off, n, err, own))
    if bad:
        _, n, err, own = max(bad)
        raise Bad(f"{len(bad)} of {len(all_of)} gradients are off, worst {n}: {err:.7e} away from PyTorch's fp32, its fp64 is {own:.7e}")
    return f"{worst:.0e}"


def losses(ref, work, file, kind):
    """-> Hone's losses, PyTorch's in fp64, PyTorch's in fp32"""
    z = load(f"{ref}/train.npz")
    want = z[f"{kind}/loss64"]
    try:
        log = [json.loads(l) for l in open(f"{work}/{file}.jsonl") if l.strip()]
        log = sorted((r for r in log if "loss" in r and "step" in r), key=lambda r: r["step"])
        got = np.array([r["loss"] for r in log], np.float64)
    except (OSError, ValueError, TypeError) as e:
        raise Bad(f"{file}.jsonl: {e}")
    if len(got) != len(want):
        raise Bad(f"{file}.jsonl has {len(got)} losses, expected {len(want)}")
    return got, want, z[f"{kind}/loss"]


def check_losses_f64(ref, work, kind):
    """-> the worst distance, of the largest loss.

    Allowed is what an fp32 run may have, though nearly all are at 1e-15: numbers like eps stand in the file in fp32, and some
    trainings make much of a last digit.
    """
    ran(work, f"{kind}64")
    got, want, single = losses(ref, work, f"{kind}64", kind)
    allowed = LOSS_SLACK * np.maximum.accumulate(np.abs(single - want)) + LOSS_TOL
    off = np.abs(got - want)
    if not np.all(off <= allowed):
        i = int(np.argmax(np.nan_to_num(off / allowed, nan=np.inf) > 1))
        raise Bad(f"{kind} loss {i + 1} in f64 is {got[i]:.12f}, the reference {want[i]:.12f}, allowed ±{allowed[i]:.1e}")
    return f"{off.max() / np.abs(want).max():.0e}"


def check_losses(ref, work, kind):
    """-> the worst distance as a share of what is allowed.

    A run may leave the fp64 run four times as far as PyTorch's fp32 run has done up to that step.  Up to it, not at it: two
    drifting runs cross by chance, and a step where PyTorch's happens to be exact does not bind another's rounding.
    """
    ran(work, kind)
    got, want, single = losses(ref, work, kind, kind)
    drift = np.maximum.accumulate(np.abs(single - want))
    share = np.abs(got - want) / (LOSS_SLACK * drift + LOSS_TOL)
    if not np.all(share <= 1):
        i = int(np.argmax(np.nan_to_num(share, nan=np.inf) > 1))
        raise Bad(f"{kind} loss {i + 1} is {got[i]:.7f}, the reference {want[i]:.7f}, allowed ±{LOSS_SLACK * drift[i] + LOSS_TOL:.1e}")
    return f"{share.max():.2f}"


CHECKS = {"run": check_run, "convert": check_convert, "export": check_export, "gradients": check_gradients,
          "sgd": lambda r, w: check_losses(r, w, "sgd"), "adamw": lambda r, w: check_losses(r, w, "adamw"),
          "grad f64": check_gradients_f64,
          "sgd f64": lambda r, w: check_losses_f64(r, w, "sgd"), "adamw f64": lambda r, w: check_losses_f64(r, w, "adamw")}
TRAINING = list(CHECKS)[3:]


def main(models, work, names):
    width = max([5, *map(len, names)])
    print(f"{'model':{width}}  " + "  ".join(f"{what:>9}" for what in CHECKS) + f"  {'time':>6}")
    failed = 0
    for name in names:
        row, why = [], []
        for what, check in CHECKS.items():
            if what in TRAINING and not os.path.exists(f"{models}/{name}/train.npz"):
                row.append("-")
                continue
            try:
                row.append(check(f"{models}/{name}", f"{work}/{name}"))
            except Bad as e:
                row.append("FAIL")
                why.append(f"    {what}: {e}")
        failed += bool(why)
        try:
            seconds = open(f"{work}/{name}/seconds").read().strip() + " s"
        except OSError:
            seconds = ""
        print(f"{name:{width}}  " + "  ".join(f"{c:>9}" for c in row) + f"  {seconds:>6}")
        print("\n".join(why) + "\n" * bool(why), end="", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ort"]:
        onnxruntime(*sys.argv[2:])
    elif len(sys.argv) < 3:
        sys.exit(__doc__)
    else:
        sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
