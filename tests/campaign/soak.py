#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills, lists and checks of holders of every shape, in random order, for as long as it is given: nobody else is
harmed, no command fails to end, no target outlives an exit 0, nothing of gpufree is left behind.

usage: soak.py [--seconds N] [--seed N]
"""

import argparse
import collections
import os
import random
import subprocess
import sys
import time

from common import Node, enter_namespace, result, stat_of

# Not scm and io_uring: in a PID namespace /proc alone looks, and cannot show them (exit 3).
SHAPES = ["plain", "map", "own-table", "zombie-leader", "unlinked", "own-node", "ignore-term", "stopped", "fork-heir"]
KILLS = [["-9"], ["--grace", "200ms"], ["--signal", "INT", "--grace", "200ms"], ["--grace", "200ms", "--scan", "proc"],
         ["-9", "--any-open"], ["--grace", "200ms", "--json"], ["-9", "-q"]]
LOOKS = [["list"], ["list", "--json"], ["check"], ["check", "--gpu", "1"], ["kill", "-n"]]


def leftovers(known):
    """Processes of this namespace that are neither ours nor the simulated node's."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in known:
            stat = stat_of(name)
            if stat and stat[0] != "Z":
                with open(f"/proc/{name}/comm", encoding="utf-8", errors="replace") as f:
                    found.append((int(name), f.read().strip()))
    return [entry for entry in found if entry[1].startswith("gpufree") and "sim" not in entry[1]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=1800)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    enter_namespace()
    seed = options.seed or random.SystemRandom().randrange(1, 1 << 30)
    random.seed(seed)
    print(f"1..1\n# seed {seed}")
    node = Node("--gpus", "2")
    neighbour = node.add("plain", "--gpu", "1")[0]
    codes, problems, cannot = collections.Counter(), [], collections.Counter()
    begin = time.monotonic()
    while time.monotonic() - begin < options.seconds and not problems:
        started = []
        for shape in random.choices(SHAPES, k=random.randint(0, 4)):
            try:
                started += node.add(shape, "--gpu", "0")
            except subprocess.CalledProcessError:
                cannot[shape] += 1
        words = random.choice(LOOKS)
        done = node.gpufree(*words)
        codes[f"{words[0]} {done.returncode}"] += 1
        if done.returncode not in (0, 1, 3, 5):
            problems.append(f"{words}: exit {done.returncode}: {done.stdout}{done.stderr}")
        words = ["kill", "-y", "--gpu", "0", *random.choice(KILLS)]
        done = node.gpufree(*words)
        codes[f"kill {done.returncode}"] += 1
        alive = [p.pid for p in started if p.lives()]
        if done.returncode != 0 or (alive and done.returncode == 0):
            problems.append(f"{words}: exit {done.returncode}, alive {alive}: {done.stdout}{done.stderr}")
        if not neighbour.lives():
            problems.append(f"{words}: the neighbour is dead: {done.stdout}{done.stderr}")
        if leftovers({1, os.getpid()}):
            problems.append(f"{words}: left behind: {leftovers({1, os.getpid()})}")
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
    node.down()
    for problem in problems:
        print("# " + problem.replace("\n", "\n# "))
    print(f"# {time.monotonic() - begin:.0f} s, {dict(sorted(codes.items()))}, shapes that cannot be made: {dict(cannot)}")
    return 0 if result(1, not problems, "soak: nobody else harmed, every command ended, nothing left behind") else 1


if __name__ == "__main__":
    sys.exit(main())
