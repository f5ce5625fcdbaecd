#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for hone in selftest.sh: answers with the reference's own numbers, except for the one fault named by FAULT."""
import array, json, os, shutil, struct, sys, zipfile

FAULT = os.environ.get("FAULT", "")


def npy(raw):
    """-> header, data of a .npy file"""
    n = 10 + struct.unpack("<H", raw[8:10])[0]
    return raw[:n], raw[n:]


def floats(raw):
    head, data = npy(raw)
    return array.array("d" if b"<f8" in head else "f", data)


def with_floats(raw, change):
    """The same file with its first float32 changed."""
    head, data = npy(raw)
    a = array.array("f", data)
    change(a)
    return head + a.tobytes()


def option(name): return sys.argv[sys.argv.index(name) + 1]


def scaled(factor):
    def change(a):
        for i in range(len(a)):
            a[i] *= factor
    return change


def last_bit(raw):
    """Some element's last mantissa bit."""
    head, data = npy(raw)
    return head + bytes([data[0] ^ 1]) + data[1:]


def run():
    model, inputs, out = sys.argv[2], option("--inputs"), option("--output-dir")
    os.makedirs(out, exist_ok=True)
    with zipfile.ZipFile(os.path.join(os.path.dirname(inputs), "output.npz")) as z:
        for name in z.namelist():
            raw = z.read(name)
            if FAULT == "run":
                raw = with_floats(raw, scaled(1.001))
            if FAULT == "nan":
                raw = with_floats(raw, scaled(float("nan")))
            if FAULT == "convert" and model.endswith(".hone"):
                raw = last_bit(raw)
            with open(os.path.join(out, name), "wb") as f:
                f.write(raw)


def copy():
    shutil.copy(sys.argv[2], option("-o"))
    if FAULT == "export" and sys.argv[1] == "export":
        os.truncate(option("-o"), os.path.getsize(option("-o")) // 2)


def train():
    kind = option("--optimizer")
    assert "(" in option("--loss") and int(option("--batch")) > 0 and option("--steps") == "10"
    with zipfile.ZipFile(option("--data")) as z:
        losses = list(floats(z.read(f"{kind}/loss.npy")))
        if FAULT == kind:
            losses[-1] += 1e-2
        if FAULT == "short" and kind == "sgd":
            losses.pop()
        with open(option("--log"), "w") as f:
            for i, l in enumerate(losses):
                f.write(json.dumps({"step": i + 1, "loss": l}) + "\n")
        if "--dump-gradients" in sys.argv:
            with zipfile.ZipFile(option("--dump-gradients"), "w") as out:
                names = sorted(n for n in z.namelist() if n.startswith("grad/"))
                if FAULT == "lost":
                    names.pop()
                for i, n in enumerate(names):
                    raw = z.read(n)
                    out.writestr(n.removeprefix("grad/"), with_floats(raw, scaled(1.01)) if FAULT == "gradients" and i == 0 else raw)
    open(option("-o"), "wb").close()


if FAULT == "crash" and sys.argv[1] == "convert":
    sys.exit("convert: node 'x': operator Foo is unknown")
{"run": run, "convert": copy, "export": copy, "train": train}[sys.argv[1]]()
