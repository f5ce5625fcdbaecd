#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes fashion8.onnx: a small CNN that knows eight of Fashion-MNIST's ten classes and has never seen a sneaker or a bag.

    python3 pretrain.py --data DIR [--out fashion8.onnx] [--check]

DIR has the four IDX files (Debian: /usr/share/datasets/fashion-mnist from the package dataset-fashion-mnist).  --check then does
in PyTorch what the example does on the device, so that there are numbers to compare with.  Needs numpy, PyTorch and onnxruntime.
"""
import argparse, copy, gzip, math, os, subprocess, sys, tempfile, time, warnings
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NAMES = ["T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
NEW = [7, 8]
OLD = [k for k in range(10) if k not in NEW]


class Net(nn.Module):
    """(N, 1, 28, 28), pixels in 0..1 -> (N, 10).  29,000 parameters, 1.9 million multiply-adds."""
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv3, self.bn3 = nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        self.drop, self.fc = nn.Dropout(0.2), nn.Linear(64 * 3 * 3, 10)

    def features(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)     # (N, 16, 14, 14)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)     # (N, 32, 7, 7)
        x = F.max_pool2d(F.relu(self.bn3(self.conv3(x))), 2)     # (N, 64, 3, 3)
        return torch.flatten(x, 1)

    def forward(self, x):
        return self.fc(self.drop(self.features(x)))


def read_idx(path):
    b = gzip.open(path).read() if os.path.exists(path) else open(path.removesuffix(".gz"), "rb").read()
    shape = [int.from_bytes(b[4 + 4 * i:8 + 4 * i], "big") for i in range(b[3])]
    return np.frombuffer(b, np.uint8, offset=4 + 4 * b[3]).reshape(shape)


def load(folder, part):
    x = read_idx(f"{folder}/{part}-images-idx3-ubyte.gz").astype(np.float32)[:, None] / 255
    return torch.from_numpy(x), torch.from_numpy(read_idx(f"{folder}/{part}-labels-idx1-ubyte.gz").astype(np.int64))


def shifted(x):
    """Four parts of the batch, each moved by up to one pixel."""
    out = []
    for part in x.chunk(4):
        dy, dx = torch.randint(0, 3, (2,)).tolist()
        out.append(F.pad(part, (1, 1, 1, 1))[:, :, dy:dy + 28, dx:dx + 28])
    return torch.cat(out)


def fit(model, x, y, opt, steps, batch, warmup=0.1, augment=None, report=None):
    """Warm-up, then a cosine down to zero; a new order for every pass over the samples."""
    base = opt.param_groups[0]["lr"]
    order, at, done, total, t0 = torch.randperm(len(x)), 0, 0, 0.0, time.time()
    for step in range(steps):
        up = warmup * steps
        f = (step + 1) / up if step < up else 0.5 + 0.5 * math.cos(math.pi * (step - up) / (steps - up))
        opt.param_groups[0]["lr"] = base * min(1.0, f)
        if at + batch > len(x):
            order, at = torch.randperm(len(x)), 0
        pick = order[at:at + batch]
        at += batch
        xb = augment(x[pick]) if augment else x[pick]
        loss = F.cross_entropy(model(xb), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
        done, total = done + 1, total + loss.item()
        if report and (step + 1) % report == 0:
            print(f"  step {step + 1}/{steps}  loss {total / done:.4f}  {time.time() - t0:.0f} s", flush=True)
            done, total = 0, 0.0


@torch.no_grad()
def accuracy(model, x, y):
    """-> of all ten classes, of the eight old ones, of the two new ones"""
    model.eval()
    right = torch.cat([model(x[i:i + 1000]) for i in range(0, len(x), 1000)]).argmax(1) == y
    new = (y == NEW[0]) | (y == NEW[1])
    return [r.float().mean().item() for r in (right, right[~new], right[new])]


def show(what, a): print(f"{what}: all ten {a[0]:.4f}, the eight {a[1]:.4f}, sneaker and bag {a[2]:.4f}", flush=True)


def pretrain(x, y, epochs):
    torch.manual_seed(1)
    model = Net().train().to(memory_format=torch.channels_last)
    keep = torch.isin(y, torch.tensor(OLD))
    x, y = x[keep], y[keep]
    steps = len(x) // 128
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    fit(model, x, y, opt, steps * epochs, 128, augment=shifted, report=steps)
    return model.eval().to(memory_format=torch.contiguous_format)


def export(model, path):
    # In eval mode the exporter would drop Dropout; training on the device needs to know where it was.
    @torch.onnx.symbolic_helper.parse_args("v", "f", "i")
    def dropout(g, x, p, train):
        return g.op("Dropout", x, g.op("Constant", value_t=torch.tensor(p)))
    torch.onnx.register_custom_op_symbolic("aten::dropout", dropout, 17)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(     # PRESERVE with an eval() model: batch norm stays a node of its own
            model, (torch.zeros(2, 1, 28, 28),), path, dynamo=False, opset_version=17, input_names=["input"], output_names=["logits"],
            dynamic_axes={"input": {0: "N"}, "logits": {0: "N"}}, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)


def run_onnx(path, x):
    """ONNX Runtime in a process of its own: its C++ symbols and PyTorch's do not go together."""
    code = ("import sys, numpy as np, onnxruntime as ort\n"
            "s = ort.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])\n"
            "np.save(sys.argv[3], s.run(None, {'input': np.load(sys.argv[2])})[0])\n")
    with tempfile.TemporaryDirectory() as d:
        np.save(f"{d}/x.npy", x)
        subprocess.run([sys.executable, "-c", code, path, f"{d}/x.npy", f"{d}/y.npy"], check=True, stderr=subprocess.DEVNULL)
        return np.load(f"{d}/y.npy")


def fine_tune(model, x, y, seed, epochs):
    """The first step of the example: every weight, all ten classes."""
    torch.manual_seed(seed)
    m = copy.deepcopy(model).train().to(memory_format=torch.channels_last)
    opt = torch.optim.AdamW(m.parameters(), lr=2e-3, weight_decay=0.01)
    fit(m, x, y, opt, int(epochs * len(x) / 64), 64)
    return m


def personal(model, x, y, seed, old_each, steps=150):
    """The second step: the last layer alone, from 20 sneakers, 20 bags and old_each of every class it knows."""
    r = np.random.default_rng(seed)
    pick = np.concatenate([r.choice(np.flatnonzero(y.numpy() == k), 20 if k in NEW else old_each, replace=False) for k in range(10)])
    torch.manual_seed(seed)
    m = copy.deepcopy(model).eval()          # batch norm and dropout as in inference: the body stays as it is
    with torch.no_grad():
        feats = m.features(x[pick])
    opt = torch.optim.SGD(m.fc.parameters(), lr=3e-3, momentum=0.9)
    fit(m.fc, feats, y[pick], opt, steps, 40)
    return m


def check(model, train, test):
    show("before", accuracy(model, *test))
    for epochs in (1, 2):
        for seed in (1, 2, 3):
            show(f"fine-tuned, {epochs} epochs, seed {seed}", accuracy(fine_tune(model, *train, seed, epochs), *test))
    for old in (20, 5, 0):
        runs = np.array([accuracy(personal(model, *train, seed, old), *test) for seed in range(10)])
        show(f"personal, {old} samples of each old class, mean of {len(runs)}", runs.mean(0))
        print(f"  all ten from {runs[:, 0].min():.4f} to {runs[:, 0].max():.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--data", required=True)
    ap.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "fashion8.onnx"))
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--check", action="store_true")
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    train, test = load(a.data, "train"), load(a.data, "t10k")
    model = pretrain(*train, a.epochs)
    export(model, a.out)
    with torch.no_grad():
        want = model(test[0][:256]).numpy()
    got = run_onnx(a.out, test[0][:256].numpy())
    print(f"{a.out}: {os.path.getsize(a.out)} bytes, ONNX Runtime differs by at most {np.abs(got - want).max():.1e} of {np.abs(want).max():.1f}")
    if a.check:
        check(model, train, test)
