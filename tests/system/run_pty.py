#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs an interactive shell in a pseudo-terminal, types, and waits for what it should show: job control with a guard in
between. usage: run_pty.py COMMAND… (the guard's, up to and without what it runs)"""
import os, pty, re, select, shlex, signal, sys, termios, time

guard = " ".join(shlex.quote(word) for word in sys.argv[1:])
os.environ.update(PS1="outer> ", HISTFILE="", TERM="xterm", LC_ALL="C")
pid, fd = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
seen, at = "", 0


def expect(pattern, seconds=15):
    global seen, at
    end = time.monotonic() + seconds
    while True:
        match = re.search(pattern, seen[at:], re.S)
        if match:
            at += match.end()
            return
        if not select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
            print(f"not shown: {pattern}\n{seen!r}")
            os.kill(pid, signal.SIGKILL)
            sys.exit(1)
        seen += os.read(fd, 4096).decode(errors="replace")


def type_line(text):
    os.write(fd, text.encode() + b"\n")


expect("outer> ")
# A shell inside: its own process group, its own jobs, its own status.
type_line(guard + " -- env PS1='inner> ' bash --norc --noprofile -i")
expect("inner> ")
type_line("echo in-$((40 + 2))")
expect("in-42")
type_line("sh -c 'echo u''p; exec cat'")
expect("up\r\n")
os.write(fd, b"typed\n")
expect("typed\r\ntyped")
os.write(fd, b"\x03")  # Ctrl-C ends cat, not the inner shell
expect("inner> ")
type_line("sleep 1000")
time.sleep(0.3)
os.write(fd, b"\x1a")  # Ctrl-Z stops it for the inner shell
expect("Stopped")
expect("inner> ")
type_line("kill %1; wait; suspend")
expect("outer> ")
type_line("fg")
expect("inner> ")
type_line("exit 5")
expect("outer> ")
type_line("echo status-$?")
expect("status-5")
expect("outer> ")
# A plain program: Ctrl-Z, fg, Ctrl-C.
type_line(guard + " -- sh -c 'echo u''p; exec cat'")
expect("up\r\n")
os.write(fd, b"\x1a")
expect("Stopped")
expect("outer> ")
type_line("fg")
expect("cat'\r\n")  # the shell names the job
os.write(fd, b"again\n")
expect("again\r\nagain")
os.write(fd, b"\x03")
expect("outer> ")
type_line("echo status-$?")
expect("status-130")
expect("outer> ")
# The terminal comes back sane from a program that is killed in raw mode.
before = termios.tcgetattr(fd)[3]
type_line(guard + " -- python3 -c 'import os, tty; tty.setraw(0); os.kill(os.getpid(), 9)'")
expect("outer> ")
type_line("echo status-$?")
expect("status-137")
type_line("exit")
os.waitpid(pid, 0)
print("all shown")
