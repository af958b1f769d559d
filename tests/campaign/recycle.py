#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills among bystanders while PIDs go round: in a PID namespace with a small pid_max, processes that hold the device
come and go by themselves while they are being ended, others fork without a pause, and 200 bystanders (the same program;
half of them hold another GPU) must all live.

usage: recycle.py [--kills N] [--bystanders N] [--pid-max N]
"""

import argparse
import os
import re
import subprocess
import sys
import time

from common import TOOLS, Node, Process, enter_namespace, holders_of, result


def racer(*words):
    child = subprocess.Popen([os.path.join(TOOLS, "racer"), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, start_new_session=True)
    return child, [Process(int(pid)) for pid in child.stdout.readline().split()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10000)
    parser.add_argument("--bystanders", type=int, default=200)
    parser.add_argument("--pid-max", type=int, default=500)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=86400, help="stop after so long")
    options = parser.parse_args()
    enter_namespace()
    # Before 6.14 pid_max is the whole machine's, also when it is written in a namespace.
    if tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) < (6, 14):
        print("1..0 # SKIP pid_max belongs to the whole machine before Linux 6.14")
        return 0
    try:
        with open("/proc/sys/kernel/pid_max", "w", encoding="ascii") as f:
            f.write(str(options.pid_max))
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as f:
            if int(f.read()) != options.pid_max:
                raise OSError
    except OSError:
        print("1..0 # SKIP pid_max of a namespace cannot be set here")
        return 0
    print("1..1")
    sim = Node("--gpus", "2")
    target, other = sim.device("nvidia0"), sim.device("nvidia1")
    half = options.bystanders // 2
    idle, bystanders = racer("idle", str(half), "0", "100000", "-")
    holding, others = racer("plain", str(half), "0", "100000", other)
    bystanders += others
    churners, _ = racer("churn", "2", "300", "100000", "-")
    kills = runs = 0
    codes = {}
    begin, first_pids, repeats = time.monotonic(), set(), 0
    good = True
    while kills < options.kills and time.monotonic() - begin < options.seconds:
        holders, started = racer("brief" if runs % 2 else "plain", str(options.batch), "60000", "60", target)
        for process in started:
            repeats += process.pid in first_pids
            first_pids.add(process.pid)
        done = sim.gpufree("kill", "-y", "--force", target)
        runs += 1
        codes[done.returncode] = codes.get(done.returncode, 0) + 1
        kills += len(started)
        harmed = [b.pid for b in bystanders if not b.lives()]
        if harmed:
            print(f"# run {runs}: harmed {harmed}\n{done.stdout}{done.stderr}")
            good = False
            break
        left = holders_of(target)
        if left and done.returncode == 0:
            print(f"# run {runs}: exit 0, and {left} hold\n{done.stdout}{done.stderr}")
            good = False
        if done.returncode not in (0, 1):
            print(f"# run {runs}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        holders.stdin.close()
        holders.wait()
        while True:  # orphans of the pattern are ours, as the first process of the namespace
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
    for child in (idle, holding, churners):
        child.stdin.close()
        child.wait(timeout=60)
    sim.down()
    print(f"# {kills} holders in {runs} kills among {len(bystanders)} bystanders, {repeats} PIDs used again, "
          f"exit codes {dict(sorted(codes.items()))}, {time.monotonic() - begin:.0f} s")
    return 0 if result(1, good and repeats > 0, "PIDs go round: no bystander harmed, never \"free\" while held") else 1


if __name__ == "__main__":
    sys.exit(main())
