#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for hone in selftest.sh: answers with the reference's own numbers, except for the one fault named by FAULT."""
import array, json, math, os, shutil, struct, sys, zipfile

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


def doubles(raw, change):
    """The same array in float64, times `change`."""
    head, data = npy(raw)
    text = head[10:].replace(b"'<f4'", b"'<f8'")
    return head[:10] + text + array.array("d", (v * change for v in array.array("f", data))).tobytes()


def exact_gradients(z, names):
    """Gradients as far from the reference's fp32 ones as its fp64 ones are: scaled by a little."""
    norms = [math.sqrt(sum(v * v for v in floats(z.read(n)))) for n in names]
    order = [n.decode() for n in z_strings(z.read("params.npy"))]
    own = dict(zip(order, floats(z.read("gradrel.npy"))))
    floor = 1e-6 * math.sqrt(sum(n * n for n in norms))
    out = {}
    for n, norm in zip(names, norms):
        name = n.removeprefix("grad/").removesuffix(".npy")
        r = own[name]
        change = 1 / (1 + r) if norm / (1 + r) >= floor else 1 - r * floor / norm if norm > 0 else 1
        out[name + ".npy"] = doubles(z.read(n), change * (1 + 1e-5 * (FAULT == "gradients64")))
    return out


def z_strings(raw):
    """The elements of an array of byte strings."""
    head, data = npy(raw)
    size = int(head.split(b"'|S")[1].split(b"'")[0])
    return [data[i:i + size].rstrip(b"\0") for i in range(0, len(data), size)]


def train():
    kind = option("--optimizer")
    if "--dtype" in sys.argv:
        return train_f64(kind)
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


def train_f64(kind):
    assert option("--dtype") == "f64"
    with zipfile.ZipFile(option("--data")) as z:
        losses = list(floats(z.read(f"{kind}/loss64.npy")))
        if FAULT == kind + "64":
            losses[-1] += 1e-2
        with open(option("--log"), "w") as f:
            for i, l in enumerate(losses):
                f.write(json.dumps({"step": i + 1, "loss": l}) + "\n")
        if "--dump-gradients" in sys.argv:
            with zipfile.ZipFile(option("--dump-gradients"), "w") as out:
                for name, raw in exact_gradients(z, sorted(n for n in z.namelist() if n.startswith("grad/"))).items():
                    out.writestr(name, raw)
    open(option("-o"), "wb").close()


if FAULT == "crash" and sys.argv[1] == "convert":
    sys.exit("convert: node 'x': operator Foo is unknown")
{"run": run, "convert": copy, "export": copy, "train": train}[sys.argv[1]]()
