# SPDX-License-Identifier: Apache-2.0
"""Golden training runs: six tiny networks, each with one kind of everything that a gradient passes through.

Besides the usual three files: train.npz (one batch, ten losses of SGD and of AdamW in fp32 and fp64, the first gradients) and meta.json
(the loss as `hone train --loss` takes it, the batch).  README.md lists the keys; tests/lab/check.py reads them too.
"""
import copy, json, warnings, zlib
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS, SGD, ADAMW = 10, dict(lr=0.01, momentum=0.9), dict(lr=1e-3, weight_decay=0.01)


def rng(*key): return np.random.default_rng(zlib.crc32("/".join(map(str, key)).encode()))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(7, 6), nn.Linear(6, 5), nn.Linear(5, 4)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 2, 5, padding=2), nn.Conv2d(2, 4, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(16, 12), nn.Linear(12, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = torch.flatten(F.max_pool2d(F.relu(self.conv2(x)), 2), 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class ConvNet(nn.Module):        # batch norm, depthwise, squeeze-and-excite, residual, pooling
    def __init__(self):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(2, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6)
        self.dw, self.n2 = nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.BatchNorm2d(6)
        self.s1, self.s2 = nn.Conv2d(6, 3, 1), nn.Conv2d(3, 6, 1)
        self.fc = nn.Linear(6 * 4, 4)

    def forward(self, x):
        x = F.hardswish(self.n1(self.c1(x)))
        y = F.silu(self.n2(self.dw(x)))
        y = x + y * F.hardsigmoid(self.s2(torch.relu(self.s1(F.adaptive_avg_pool2d(y, 1)))))
        return self.fc(torch.flatten(F.max_pool2d(y, 2), 1))


class Transformer(nn.Module):    # embedding, positions, layer norm, attention, GELU; Linear on three axes transposes its weight
    def __init__(self, d=8, heads=2, seq=5, vocab=11):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Parameter(torch.zeros(seq, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.h, self.head = heads, nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        q, k, v = (t.reshape(-1, 5, self.h, 4).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        p = torch.softmax(q @ k.transpose(-1, -2) * 0.5, -1)
        x = x + self.o((p @ v).transpose(1, 2).reshape(-1, 5, 8))
        return self.head(x + self.down(F.gelu(self.up(self.n2(x)))))


class Segment(nn.Module):        # transposed convolution, resize, concat, group norm; classes on axis 1
    def __init__(self):
        super().__init__()
        self.d, self.n = nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.GroupNorm(2, 4)
        self.u = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)
        self.o = nn.Conv2d(3 + 4 + 1, 3, 3, padding=2, dilation=2)

    def forward(self, x):
        y = F.leaky_relu(self.n(self.d(x)), 0.1)
        up = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return self.o(torch.cat([torch.tanh(self.u(y)), up, x], 1))


class TwoHeads(nn.Module):       # two outputs, two losses
    def __init__(self):
        super().__init__()
        self.body, self.cls, self.box = nn.Linear(6, 12), nn.Linear(12, 3 * 4), nn.Linear(12, 3 * 2)

    def forward(self, x):
        y = F.elu(self.body(x))
        return self.cls(y).reshape(-1, 3, 4), torch.sigmoid(self.box(y)).reshape(-1, 3, 2)


def images(c, s): return lambda r, n: {"input": r.standard_normal((n, c, s, s)).astype(np.float32)}
def labels(k, *s): return lambda r, n: {"label": r.integers(0, k, (n, *s))}
def ce_last(o, t): return F.cross_entropy(o[0].reshape(-1, o[0].shape[-1]), t["label"].reshape(-1))


CE = "cross_entropy(logits, target/label)"
RUNS = {
    "train_mlp": (Mlp, ["logits"], lambda r, n: {"input": r.standard_normal((n, 7)).astype(np.float32)}, labels(4), ce_last, CE),
    "train_lenet": (LeNet, ["logits"], images(1, 16), labels(5), ce_last, CE),
    "train_convnet": (ConvNet, ["logits"], images(2, 8), labels(4), ce_last, CE),
    "train_transformer": (Transformer, ["logits"], lambda r, n: {"ids": r.integers(0, 11, (n, 5))}, labels(11, 5), ce_last, CE),
    "train_segment": (Segment, ["logits"], images(1, 8), labels(3, 8, 8), lambda o, t: F.cross_entropy(o[0], t["label"]), CE),
    "train_two_heads": (TwoHeads, ["cls", "box"], lambda r, n: {"input": r.standard_normal((n, 6)).astype(np.float32)},
                        lambda r, n: {**labels(4, 3)(r, n), "box": r.uniform(-1, 2, (n, 3, 2)).astype(np.float32)},
                        lambda o, t: ce_last(o, t) + 0.5 * F.smooth_l1_loss(o[1], t["box"]),
                        "cross_entropy(cls, target/label) + 0.5*smooth_l1(box, target/box)"),
}


def tensors(d, dtype): return {k: torch.from_numpy(v).to(dtype) if v.dtype == np.float32 else torch.from_numpy(v) for k, v in d.items()}
def as_tuple(y): return y if isinstance(y, tuple) else (y,)


def run(model, loss, x, t, kind, dtype):
    m = copy.deepcopy(model).to(dtype).train()
    x, t = tensors(x, dtype), tensors(t, dtype)
    opt = torch.optim.SGD(m.parameters(), **SGD) if kind == "sgd" else torch.optim.AdamW(m.parameters(), **ADAMW)
    losses, grads, stats = [], None, None
    for step in range(STEPS):
        opt.zero_grad()
        l = loss(as_tuple(m(*x.values())), t)
        l.backward()
        grads = grads or {k: p.grad.numpy().copy() for k, p in m.named_parameters()}
        opt.step()
        stats = stats or {k: b.numpy().copy() for k, b in m.named_buffers() if "running" in k} or {"": None}
        losses.append(l.item())
    return np.array(losses), grads, {k: v for k, v in stats.items() if k}


def make(out, name, save, batch=6):
    build, outputs, data, target, loss, text = RUNS[name]
    m = build()
    r = rng(name, "weights")
    with torch.no_grad():
        for k, p in m.named_parameters():
            p.copy_(torch.from_numpy((r.standard_normal(p.shape) * (0.4 if p.dim() > 1 else 0.1) + (p.dim() == 1 and k.endswith("weight"))).astype(np.float32)))
        for k, b in m.named_buffers():
            if "running" in k:
                b.copy_(torch.from_numpy((r.uniform(0.5, 1.5, b.shape) if "var" in k else 0.2 * r.standard_normal(b.shape)).astype(np.float32)))
    m.eval()
    x = data(rng(name, "input"), 2)
    with torch.no_grad():
        y = as_tuple(copy.deepcopy(m).double()(*tensors(x, torch.float64).values()))
    save(out, name, x, {k: v.float().numpy() for k, v in zip(outputs, y)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(m, tuple(tensors(x, torch.float32).values()), f"{out}/{name}/model.onnx", dynamo=False, opset_version=17, input_names=list(x),
                          output_names=outputs, dynamic_axes={k: {0: "N"} for k in [*x, *outputs]}, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    x, t = data(rng(name, "in"), batch), target(rng(name, "target"), batch)
    z = {f"in/{k}": v for k, v in x.items()} | {f"target/{k}": v for k, v in t.items()}
    for kind in ("sgd", "adamw"):
        l32, g32, bn = run(m, loss, x, t, kind, torch.float32)
        l64, g64, _ = run(m, loss, x, t, kind, torch.float64)
        z[f"{kind}/loss"], z[f"{kind}/loss64"] = l32.astype(np.float32), l64
    floor = 1e-6 * np.sqrt(sum(np.sum(g * g) for g in g64.values()))
    z["params"] = np.array([k.encode() for k in g32])
    z["gradrel"] = np.array([np.linalg.norm(g32[k] - g64[k]) / max(np.linalg.norm(g64[k]), floor) for k in g32])
    z |= {f"grad/{k}": v for k, v in g32.items()} | {f"bn1/{k}": v for k, v in bn.items()}
    np.savez(f"{out}/{name}/train.npz", **z)
    with open(f"{out}/{name}/meta.json", "w") as f:
        json.dump(dict(model=name, loss=text, train_batch=batch, params=int(sum(p.numel() for p in m.parameters()))), f, indent=1)
