#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory and time of training steps in PyTorch, for memory.py. Prints one JSON object.

usage: memory_peer.py --models FOLDER MODEL BATCH eager|checkpoint

FOLDER holds models.py, which builds the reference models. `peak_bytes` is what the process has grown by since before
the model was built: parameters, gradients, AdamW's state, activations and the allocator's slack.
"""
import json
import sys
import time

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

folder, name, batch, mode = sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
sys.path.insert(0, folder)
import models  # noqa: E402


def status(field):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field))


def wrap(module):
    """Every block of a Sequential or ModuleList is recomputed in backward."""
    for child in module.children():
        blocks = isinstance(child, (nn.Sequential, nn.ModuleList)) and any(
            next(block.parameters(), None) is not None for block in child
        )
        if not blocks:
            wrap(child)
            continue
        for block in child:
            forward = block.forward
            block.forward = lambda *a, f=forward: checkpoint(f, *a, use_reentrant=False)


torch.set_num_threads(2)
torch.manual_seed(0)
(torch.ones(64, 64) @ torch.ones(64, 64)).sum().item()  # the libraries' own first allocations
before = status("VmRSS")
model = models.build(name, calibrate=False).train()
if mode == "checkpoint":
    wrap(model)
data, _ = models.batch(name, batch)
inputs = list(models.tensors(data).values())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)


def step():
    optimizer.zero_grad()
    outputs = models.as_tuple(model(*inputs))
    sum((y.float() ** 2).mean() for y in outputs if y.is_floating_point()).backward()
    optimizer.step()


times = []
for i in range(6):
    start = time.perf_counter()
    step()
    if i > 1:
        times.append(time.perf_counter() - start)
print(json.dumps({"peak_bytes": status("VmHWM") - before, "ms": sorted(times)[len(times) // 2] * 1e3}))
