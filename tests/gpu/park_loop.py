# SPDX-License-Identifier: MIT
"""A PyTorch process that computes in a loop: writes a digest of its result after each step, and of what it merely keeps.

usage: park_loop.py FILE STEPS MIB"""
import hashlib
import os
import sys
import time

import torch

path, steps, mib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(7)
device = torch.device("cuda", 0)
weights = torch.randn(2048, 2048, device=device) / 45.0
value = torch.randn(2048, 2048, device=device)
kept = torch.randint(0, 255, (mib << 20,), dtype=torch.uint8, device=device)
with open(path, "w", buffering=1) as out:
    for step in range(steps):
        value = torch.tanh(value @ weights)
        digest = hashlib.sha256(value.cpu().numpy().tobytes()).hexdigest()
        total = int(kept.sum(dtype=torch.int64))
        out.write(f"{step} {digest} {total}\n")
        if step == 0:
            print("ready", os.getpid(), flush=True)
        time.sleep(0.02)
