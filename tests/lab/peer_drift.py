#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far PyTorch itself moves by the rule of check.py, when only the way it computes changes.

  peer_drift.py MODELS_PY REFERENCE_DIR NAME ...

MODELS_PY defines the reference models (build, batch, optimizer, SPECS); REFERENCE_DIR/NAME/train.npz is what they gave.
Prints one line a model and arrangement (threads, memory format, with and without oneDNN): how many gradients of the first
step are beyond what is allowed, the worst, and the worst losses of ten steps, as shares of what is allowed.  Where PyTorch
does not stay within the limits either, a difference there says nothing about the program under test.
"""
import copy, importlib.util, itertools, sys
import numpy as np
import torch

spec = importlib.util.spec_from_file_location("models", sys.argv[1])
M = importlib.util.module_from_spec(spec)
sys.modules["models"] = M
spec.loader.exec_module(M)


def run(name, kind, channels_last):
    s = M.SPECS[name]
    x, t = M.batch(name, s.train_batch)
    m, x, t = copy.deepcopy(M.build(name)).train(), M.tensors(x), M.tensors(t)
    if channels_last:
        m = m.to(memory_format=torch.channels_last)
        x = {k: v.to(memory_format=torch.channels_last) if v.dim() == 4 else v for k, v in x.items()}
    optimizer, losses, grads = M.optimizer(kind, m.parameters()), [], None
    for _ in range(M.STEPS):
        optimizer.zero_grad()
        loss = s.loss(M.as_tuple(m(*x.values())), t)
        loss.backward()
        if grads is None:
            grads = {k: p.grad.numpy().astype(np.float64) for k, p in m.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses), grads


for name in sys.argv[3:]:
    t = np.load(f"{sys.argv[2]}/{name}/train.npz")
    params = [p.decode() if isinstance(p, bytes) else str(p) for p in t["params"]]
    whole = np.sqrt(sum((t["grad/" + p].astype(np.float64) ** 2).sum() for p in params))
    for threads, channels_last, onednn in itertools.product((1, 2), (False, True), (True, False)):
        torch.set_num_threads(threads)
        torch.backends.mkldnn.enabled = onednn
        shares = []
        for kind in ("sgd", "adamw"):
            losses, g = run(name, kind, channels_last)
            exact = t[kind + "/loss64"].astype(float)
            drift = np.maximum.accumulate(np.abs(t[kind + "/loss"].astype(float) - exact))
            shares.append((np.abs(losses - exact) / (4 * drift + 1e-5)).max())
            if kind == "sgd":
                grads = g
        worst = []
        for p, own in zip(params, t["gradrel"]):
            a = t["grad/" + p].astype(np.float64)
            error = np.linalg.norm(a - grads[p]) / max(np.linalg.norm(a), 1e-6 * whole)
            worst.append(error / max(1e-4, 4 * own))
        print(f"{name:20} {threads} threads  {'channels last ' if channels_last else 'channels first'}  "
              f"{'oneDNN' if onednn else 'native'}  gradients: {sum(w > 1 for w in worst)} of {len(worst)} beyond, "
              f"worst {max(worst):.2f}  sgd {shares[0]:.2f}  adamw {shares[1]:.2f}", flush=True)
