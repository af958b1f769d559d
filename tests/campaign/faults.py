#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each system call, or allocation, of a `kill` fails once. Every run must end in time, with a true message and exit
code, hurt nobody but the target, and never call a GPU free that is held.

usage: faults.py [--every N] [--offset N] [--errnos ENOMEM,…] [--what calls,allocations] [--scan proc|auto]
"""

import argparse
import collections
import errno
import os
import re
import subprocess
import sys

from common import GPUFREE, TOOLS, Node, enter_namespace, result

ERRNOS = ["ENOMEM", "EMFILE", "EACCES", "ESRCH", "EINTR", "EIO"]
SECONDS = 60


class Campaign:
    def __init__(self, options):
        self.options = options
        self.node = Node("--gpus", "2")
        self.bystanders = self.node.add("plain", "--gpu", "1") + self.node.add("open", "--gpu", "0")
        self.target = None
        self.out = os.path.join(self.node.tmp.name, "injected")
        self.codes = collections.Counter()
        self.problems = []
        self.runs = 0
        self.command = ["kill", "-y", *options.kill.split(), "--gpu", "0", "--scan", options.scan, "--settle", "2s",
                        "--timeout", "20s"]

    def renew(self):
        if not (self.target and self.target.lives()):
            self.target = self.node.add("plain", "--gpu", "0", "--memory", "20GiB")[0]

    def problem(self, what, label, done):
        self.problems.append(f"{label}: {what}")
        print(f"# {label}: {what} (returned {done.returncode})\n" + "".join(f"#   {line}\n" for line in (done.stdout + done.stderr).splitlines()),
              flush=True)

    def judge(self, label, code, done):
        text = done.stdout + done.stderr
        alive = self.target.lives()
        self.runs += 1
        self.codes[code] += 1
        if code == 255:
            self.problem(f"still running after {SECONDS} s", label, done)
        elif code > 6:
            self.problem(f"ended with {code}", label, done)
        for bystander in self.bystanders:
            if not bystander.lives():
                self.problem(f"bystander {bystander.pid} is dead", label, done)
                sys.exit(1)
        if alive and code == 0:
            self.problem("exit 0, and the target lives", label, done)
        if alive and re.search(r"GPU 0 +verified free", text):
            self.problem("\"verified free\", and the target lives", label, done)
        if not alive and "nothing was ended" in text:
            self.problem("\"nothing was ended\", and the target is dead", label, done)
        if code != 0 and not re.search(r"gpufree: .|GPU 0 .*|Broken off half-way .|(?m:^  \d+ .*(refused|survived|not signalled|still))", text):
            self.problem(f"exit {code} without a reason", label, done)
        if code == 2 and not alive:
            self.problem("exit 2 (bad usage, nothing done), and the target is dead", label, done)
        if self.options.verbose:
            print(f"# {label}: exit {code}, target {'lives' if alive else 'ended'}: {text[-200:]!r}")
        if code == 1 and not alive and "nterrupted" not in text and "more that" not in text and "urvived" not in text \
                and "came after" not in text:
            self.problem("exit 1, and the target is dead", label, done)

    def injected(self, *words):
        if os.path.exists(self.out):
            os.unlink(self.out)
        done = self.node.gpufree(*self.command, timeout=SECONDS + 30,
                                 before=[os.path.join(TOOLS, "inject"), "-t", str(SECONDS), "-o", self.out, *words])
        with open(self.out, encoding="ascii") as f:
            return done, [int(x) for x in f.read().split()]

    def calls(self):
        self.renew()
        total = self.injected()[1][0]
        print(f"# {total} system calls in a run of {' '.join(self.command)}")
        for name in self.options.errnos.split(","):
            for at in range(1 + self.options.offset, total + 1, self.options.every):
                self.renew()
                done, (_, call, code) = self.injected("-w", str(at), "-e", str(getattr(errno, name)))
                self.judge(f"call {at} (number {call}) {name}", code, done)

    def allocations(self):
        self.renew()
        self.node.env["LD_PRELOAD"] = os.path.join(TOOLS, "liballocfail.so")
        self.node.env["ALLOC_COUNT"] = self.out
        self.node.gpufree(*self.command)
        with open(self.out, encoding="ascii") as f:
            total = int(f.read())
        print(f"# {total} allocations in a run of {' '.join(self.command)}")
        del self.node.env["ALLOC_COUNT"]
        for at in range(1 + self.options.offset, total + 1, self.options.every):
            del self.node.env["LD_PRELOAD"]
            self.renew()
            self.node.env["LD_PRELOAD"] = os.path.join(TOOLS, "liballocfail.so")
            self.node.env["ALLOC_FAIL"] = str(at)
            try:
                done = self.node.gpufree(*self.command, timeout=SECONDS)
                code = done.returncode if done.returncode >= 0 else 128 - done.returncode
            except subprocess.TimeoutExpired as late:
                done = subprocess.CompletedProcess([], 255, str(late.stdout), str(late.stderr))
                code = 255
            del self.node.env["ALLOC_FAIL"]
            self.judge(f"allocation {at}", code, done)
        del self.node.env["LD_PRELOAD"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--errnos", default=",".join(ERRNOS))
    parser.add_argument("--what", default="calls,allocations")
    parser.add_argument("--scan", default="proc")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--kill", default="-9", help="options of kill, as \"--grace 1s\"")
    options = parser.parse_args()
    enter_namespace()
    if not os.path.exists(GPUFREE):
        print(f"{GPUFREE} is not there", file=sys.stderr)
        return 1
    print("1..1")
    campaign = Campaign(options)
    try:
        for what in options.what.split(","):
            getattr(campaign, what)()
    finally:
        campaign.node.down()
    print(f"# {campaign.runs} runs, exit codes {dict(sorted(campaign.codes.items()))}, "
          f"{len(campaign.problems)} problems")
    return 0 if result(1, not campaign.problems, f"{campaign.runs} faults, none in a crash, a hang, a wrong signal or "
                       "a false \"free\"") else 1


if __name__ == "__main__":
    sys.exit(main())
