# SPDX-License-Identifier: MIT
"""What the campaigns share: a PID namespace of their own, a simulated node in it, processes known by start time."""

import os
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build"))
GPUFREE = os.environ.get("GPUFREE", os.path.join(BUILD, "cli", "gpufree"))
SIM = os.path.join(BUILD, "sim", "gpufree-sim")
TOOLS = os.path.join(BUILD, "tests", "campaign")


def enter_namespace():
    """Runs this program again as the first process of a PID namespace with its own /proc: all ends with it."""
    if os.environ.get("CAMPAIGN_INSIDE"):
        return
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for a PID namespace and device nodes")
        sys.exit(0)
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", sys.executable] + sys.argv
    if subprocess.run(command[:6] + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("1..0 # SKIP no PID namespaces here")
        sys.exit(0)
    sys.exit(subprocess.run(command, env={**os.environ, "CAMPAIGN_INSIDE": "1"}).returncode)


class Node:
    """A simulated node in a directory of its own."""

    def __init__(self, *options):
        self.tmp = tempfile.TemporaryDirectory(prefix="campaign-")
        self.dir = os.path.join(self.tmp.name, "node")
        text = subprocess.run([SIM, "up", self.dir, *options], check=True, capture_output=True, text=True).stdout
        done = subprocess.run(["sh", "-c", text + "\nexec env -0"], check=True, capture_output=True, text=True)
        self.env = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
        self.options = shlex.split(self.env.get("GPUFREE_OPTS", "")) + ["--scope", "namespace"]

    def device(self, name):
        return os.path.join(self.dir, "dev", name)

    def add(self, *words):
        done = subprocess.run([SIM, "add", self.dir, *words], check=True, capture_output=True, text=True, env=self.env)
        return [Process(int(pid)) for pid in done.stdout.split()]

    def gpufree(self, *words, timeout=120, before=()):
        command = [*before, GPUFREE, *words, *self.options]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=self.env,
                              stdin=subprocess.DEVNULL, errors="replace")

    def down(self):
        subprocess.run([SIM, "down", self.dir], check=True, env=self.env)
        self.tmp.cleanup()


def stat_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


class Process:
    """A process by PID and start time."""

    def __init__(self, pid):
        self.pid = pid
        stat = stat_of(pid)
        self.start = stat[19] if stat else None

    def lives(self):
        stat = stat_of(self.pid)
        return stat is not None and stat[19] == self.start and stat[0] not in "ZX"


def holders_of(path):
    """PIDs that have this device number open, as /proc says."""
    want, found = os.stat(path).st_rdev, []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            for fd in os.listdir(f"/proc/{name}/fd"):
                if os.stat(f"/proc/{name}/fd/{fd}").st_rdev == want:
                    found.append(int(name))
                    break
        except OSError:
            continue
    return found


def result(number, good, text):
    print(f"{'ok' if good else 'not ok'} {number} - {text}", flush=True)
    return good
