#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Interactive programs in a pseudo-terminal, each typed at twice: bare, and behind the guard. What is seen must be the same.
usage: run_interactive.py python|EDITOR COMMAND… (the guard's, up to and without what it runs); EDITOR is the path of a vim"""
import fcntl, os, pty, re, select, shlex, signal, struct, sys, tempfile, termios, time

what, guard = sys.argv[1], " ".join(shlex.quote(word) for word in sys.argv[2:]) + " -- "
os.environ.update(PS1="outer> ", HISTFILE="", TERM="xterm", LC_ALL="C", PYTHONSTARTUP="", PYTHON_BASIC_REPL="1")
SHORT, TALL = (24, 80), (33, 101)


class Terminal:
    """A shell with job control, and what was seen of it."""

    def __init__(self, name):
        self.name, self.seen, self.at, self.notes = name, "", 0, []
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.resize(SHORT)
        self.expect("outer> ")
        self.line("stty -g")
        self.modes = self.expect(r"[\r\n]([0-9a-f:]{20,})\r\n").group(1)
        self.expect("outer> ")

    def resize(self, size):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def shows(self, pattern, seconds):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.seen[self.at :], re.S):
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                return False
            self.seen += os.read(self.fd, 4096).decode(errors="replace")
        return True

    def ask(self, keys, pattern):
        """A program can lose a key (an editor throws away what was typed ahead): again, until it answers."""
        for _ in range(20):
            self.keys(keys)
            if self.shows(pattern, 1):
                break
        self.note(pattern)

    def expect(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.seen[self.at :], re.S)
            if match:
                self.at += match.end()
                return match
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                print(f"{self.name}: not shown: {pattern}\n{self.seen!r}")
                os.kill(self.pid, signal.SIGKILL)
                sys.exit(1)
            self.seen += os.read(self.fd, 4096).decode(errors="replace")

    def keys(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        self.keys(text + "\n")

    def note(self, pattern):
        """What was found there is to be the same behind the guard."""
        self.notes.append(self.expect(pattern).groups())

    def status(self):
        """Back at the shell: the exit status, and the terminal as it was."""
        self.expect("outer> ")
        self.line("echo status-$?")
        self.note(r"[\r\n]status-(\d+)\r")
        self.line("stty -g")
        modes = self.expect(r"[\r\n]([0-9a-f:]{20,})\r\n").group(1)
        if modes != self.modes:
            print(f"{self.name}: the terminal was {self.modes} and is {modes}")
            sys.exit(1)
        self.expect("outer> ")

    def end(self):
        self.line("exit")
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        return self.notes


def python(t, before):
    t.line(before + shlex.quote(sys.executable) + " -q")
    t.expect(">>> ")
    t.line("import os, signal, time; sizes, hits = [], []")
    t.expect(">>> ")
    t.line("_ = signal.signal(signal.SIGWINCH, lambda *_: sizes.append(tuple(os.get_terminal_size())))")
    t.expect(">>> ")
    # A new size is heard of, once.
    t.line("print('look' + 'ing'); exec('while not sizes: time.sleep(0.02)'); time.sleep(0.3); print('win', *sizes)")
    t.expect("looking\r\n")
    t.resize(TALL)
    t.note(r"win (\(.*?\))\r\n")
    t.expect(">>> ")
    # Ctrl-C is the program's: at its prompt, in a call, and once each time.
    t.keys("1 + ")
    t.expect(r"1 \+ ")
    t.ask("\x03", "(KeyboardInterrupt)")  # one that comes just before it reads waits for the next key
    t.expect(">>> ")
    t.line("print('sleep' + 'ing'); time.sleep(1000)")
    t.expect("sleeping\r\n")
    t.keys("\x03")
    t.note("(KeyboardInterrupt)")
    t.expect(">>> ")
    t.line("_ = signal.signal(signal.SIGINT, lambda *_: hits.append(1))")
    t.expect(">>> ")
    t.line("print('count' + 'ing'); exec('while not hits: time.sleep(0.02)'); time.sleep(0.3); print('hits', len(hits))")
    t.expect("counting\r\n")
    t.keys("\x03")
    t.note(r"hits (\d+)\r")
    t.expect(">>> ")
    # Ctrl-Z stops it for the shell; fg brings it back with what it knew.
    t.line("kept = 40 + 2; print('stop' + 'pable'); time.sleep(1); print('slept')")
    t.expect("stoppable\r\n")
    t.keys("\x1a")
    t.note("(Stopped)")
    t.expect("outer> ")
    t.line("echo the-$((1 + 1))-shell")
    t.note(r"[\r\n](the-2-shell)\r")
    t.expect("outer> ")
    t.line("fg")
    t.expect("slept\r\n")
    t.expect(">>> ")
    t.line("print('kept', kept)")
    t.note(r"kept (\d+)\r")
    t.expect(">>> ")
    t.line("raise SystemExit(7)")
    t.status()
    # Ctrl-D ends it; what it is fed from a pipe, it reads.
    t.line(before + shlex.quote(sys.executable) + " -q")
    t.expect(">>> ")
    t.keys("\x04")
    t.status()
    t.line(f"echo 'print(6 * 7)' | {before}{shlex.quote(sys.executable)} - | tr 4 '<'")
    t.note(r"[\r\n](<2)\r")
    t.status()
    t.line(before + shlex.quote(sys.executable) + " -c 'import os; os.kill(os.getpid(), 9)'")
    t.status()


def vim(t, before):
    path = tempfile.mktemp(prefix="gpufree-vim-")
    command = f"{before}{shlex.quote(what)} -u NONE -i NONE -N -n --cmd 'set nocompatible' {path}"
    t.line(command)
    t.expect(r"\x1b\[\?1049h")  # the other screen
    t.ask(":set columns?\r", r"columns=(80)")
    t.resize(TALL)
    t.ask(":set columns?\r", r"columns=(101)")
    t.ask(":set lines?\r", r"lines=(33)")
    t.keys("ityped")
    t.expect("typed")
    t.keys("\x03")  # ends inserting, not the editor
    t.ask(":set lines?\r", r"lines=(33)")
    # Ctrl-Z: the editor stops its whole process group by itself.
    t.keys("\x1a")
    t.expect(r"\x1b\[\?1049l")
    t.note("(Stopped)")
    t.expect("outer> ")
    t.line("stty -g")
    if t.expect(r"[\r\n]([0-9a-f:]{20,})\r\n").group(1) != t.modes:
        print(f"{t.name}: stopped, it left the terminal in its own mode")
        sys.exit(1)
    t.expect("outer> ")
    t.line("fg")
    t.expect(r"\x1b\[\?1049h")
    t.keys("A again\x1b:wq\r")
    t.expect(r"\x1b\[\?1049l")
    t.status()
    with open(path) as file:
        t.notes.append(file.read())
    t.line(command)
    t.expect(r"\x1b\[\?1049h")
    t.keys(":cq\r")
    t.status()
    os.unlink(path)


play = python if what == "python" else vim
notes = []
for name, before in ("bare", ""), ("behind the guard", guard):
    terminal = Terminal(name)
    play(terminal, before)
    notes.append(terminal.end())
print(*(f"{name}: {note}" for name, note in zip(("bare", "behind the guard"), notes)), sep="\n")
sys.exit(notes[0] != notes[1])
