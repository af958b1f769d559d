#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holders that fork while they are being ended: who is left, who was harmed, how long it took; against `fuser -k`,
a second's wait, `fuser -k` again.

usage: races.py [--runs N] [--patterns chain,prefork,…] [--how force,gentle,fuser] [--chains N]
"""

import argparse
import subprocess
import sys
import time

import os

from common import TOOLS, Node, Process, enter_namespace, holders_of, result

PATTERNS = ["chain", "session", "prefork", "onekid"]
PERIODS_US = [2000, 5000, 20000]
TIMEOUT_S = 30


class Figures:
    def __init__(self):
        self.runs = self.clean = self.survivors = self.most = self.harmed = self.late = self.false = 0
        self.codes, self.times = {}, []

    def line(self, pattern, how):
        times = sorted(self.times)
        return (f"| {pattern} | {how} | {self.runs} | {self.clean} | {self.survivors} | {self.most} | {self.harmed} | "
                f"{times[len(times) // 2]:.2f} | {times[-1]:.2f} | "
                f"{' '.join(f'{code}:{n}' for code, n in sorted(self.codes.items()))} |")


def racer(*words):
    child = subprocess.Popen([os.path.join(TOOLS, "racer"), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, start_new_session=True)
    return child, [Process(int(pid)) for pid in child.stdout.readline().split()]


def any_left(child):
    child.stdin.write("?")
    child.stdin.flush()
    return child.stdout.readline() == "some\n"


def end_racers(child):
    child.stdin.close()
    child.wait(timeout=60)


def fuser(node):
    for wait in (1, 0):
        subprocess.run(["fuser", "-k", "-s", node], check=False)
        time.sleep(wait)
    return 0, ""


def gpufree(sim, node, words):
    try:
        done = sim.gpufree("kill", "-y", *words, "--timeout", f"{TIMEOUT_S}s", node, timeout=TIMEOUT_S + 15)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return 255, ""


def one(sim, pattern, how, period, chains, figures, bystanders):
    node = sim.device("nvidia0")
    child, _ = racer(pattern, str(chains), str(period), "90", node)
    time.sleep(0.05)
    begin = time.monotonic()
    if how == "fuser":
        code, text = fuser(node)
    else:
        code, text = gpufree(sim, node, ["--force"] if how == "force" else ["--grace", "1s"])
    took = time.monotonic() - begin
    left = []
    if any_left(child):  # a walk may miss who hops on
        for _ in range(10):
            left = left or holders_of(node)
        left = left or [0]
    figures.runs += 1
    figures.times.append(took)
    figures.codes[code] = figures.codes.get(code, 0) + 1
    figures.survivors += len(left)
    figures.most = max(figures.most, len(left))
    figures.clean += not left
    figures.late += how != "fuser" and took > TIMEOUT_S + 5
    harmed = [b.pid for b in bystanders if not b.lives()]
    figures.harmed += len(harmed)
    if harmed:
        print(f"# {pattern} {how}: harmed {harmed}\n{text}")
        raise SystemExit(1)
    if left and code == 0:
        figures.false += 1
        print(f"# {pattern} {how}: exit 0, and {left} hold\n{text}")
    elif left and how != "fuser":
        print(f"# {pattern} {how}: exit {code}, {len(left)} left: {text if os.environ.get('VERBOSE') else text[-300:]!r}")
    end_racers(child)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--how", default="force,gentle,fuser")
    parser.add_argument("--chains", type=int, default=20)
    options = parser.parse_args()
    enter_namespace()
    print("1..1")
    sim = Node("--gpus", "2")
    # The same program and user, holding nothing or another GPU: only what they do tells them from the holders.
    idle, bystanders = racer("idle", "20", "0", "100000", "-")
    holding, others = racer("plain", "5", "0", "100000", sim.device("nvidia1"))
    bystanders += others
    table, good = [], True
    try:
        for pattern in options.patterns.split(","):
            for how in options.how.split(","):
                figures = Figures()
                for run in range(options.runs):
                    one(sim, pattern, how, PERIODS_US[run % len(PERIODS_US)], options.chains, figures, bystanders)
                table.append(figures.line(pattern, how))
                print(f"# {table[-1]}", flush=True)
                if how != "fuser":
                    good = good and not figures.false and not figures.late
                if how == "force":
                    good = good and figures.clean == figures.runs
    finally:
        end_racers(idle)
        end_racers(holding)
        sim.down()
    print("# | pattern | how | runs | clean | left | most | harmed | median s | longest s | exit codes |")
    print("# | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for line in table:
        print(f"# {line}")
    return 0 if result(1, good, "fork races: nobody left by --force, nobody else harmed, never \"free\" while held") \
        else 1


if __name__ == "__main__":
    sys.exit(main())
