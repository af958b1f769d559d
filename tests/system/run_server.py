#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model server on a simulated node: a launcher, one worker for each GPU of CUDA_VISIBLE_DEVICES, a forked data worker
for each. What it does once the "weights" are there is its argument:

  stall       waits for ever and never opens its port
  serve PORT  answers /health with 200
  exit N      ends with N
  leave N     ends with N; the workers (in sessions of their own) stay
Prints "loaded" when all workers hold their GPU."""
import http.server, os, signal, sys, time

node = os.environ["GPUFREE_SIM_DIR"]


def gpus():
    """UUID → (index, minor), from the node's own description."""
    found, index = {}, 0
    for line in open(f"{node}/state"):
        words = line.split()
        if words and words[0] == "gpu":
            uuid = next(word for word in words if word.startswith("GPU-"))
            found[uuid] = (int(words[1]), int(words[2]))
    return found


def start_of(pid):
    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[19]


def book(index, minor, pid, heir):
    st = os.stat(f"{node}/dev/nvidia{minor}")
    rdev = f"{os.major(st.st_rdev)}:{os.minor(st.st_rdev)}"
    me, start = pid, start_of(pid)
    text = f"shape plain\nrole holder\ngpu {index}\nmemory {20 << 30}\nlisted 1\n"
    for keeper in (me, heir):
        text += f"keeper {keeper} {start_of(keeper)} fd:{rdev}\n"
    path = f"{node}/holders/{me}.{start}"
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def hold(index, minor, ready):
    os.setsid()
    for name, times in ((f"nvidia{minor}", 20), ("nvidiactl", 1), ("nvidia-uvm", 2)):
        for _ in range(times):
            os.open(f"{node}/dev/{name}", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    heir = os.fork()
    if heir == 0:  # the data worker inherits what its parent has open
        while True:
            signal.pause()
    book(index, minor, os.getpid(), heir)
    os.write(ready, b"x")
    while True:
        signal.pause()


def main():
    known = gpus()
    wanted = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    read, write = os.pipe()
    for uuid in wanted:
        if os.fork() == 0:
            hold(*known[uuid], write)
    n = 0
    while n < len(wanted):
        n += len(os.read(read, 100))
    print("loaded", flush=True)
    what = sys.argv[1]
    if what in ("exit", "leave"):
        os._exit(int(sys.argv[2]))
    if what == "serve":
        class Health(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path == "/health" else 404)
                self.end_headers()
        http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Health).serve_forever()
    while True:
        signal.pause()


main()
