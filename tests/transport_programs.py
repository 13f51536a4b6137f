"""
Small programs that the tests of the transports start: agents with bad habits, and an agent on stdio that answers.

Run as C{python transport_programs.py NAME [ARGUMENT]}.
"""

# ruff: noqa: T201 - these programs speak on standard output

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any


def echo() -> None:
    """
    Says every line back, and goes when its input ends.
    """
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def environment() -> None:
    """
    Says one variable, its directory and its group.
    """
    print(os.environ.get("WANTED", "unset"), os.getcwd(), os.getpgrp() == os.getpid(), sep="|", flush=True)
    echo()


def flood() -> None:
    """
    Writes 400 kB to its standard error, then behaves.
    """
    sys.stderr.write("x" * 99 + "\n")
    for _ in range(4000):
        sys.stderr.write("y" * 99 + "\n")
    sys.stderr.flush()
    echo()


def dies() -> None:
    """
    Reads one line, answers without a line end, says why, and exits with status 3.
    """
    sys.stdin.buffer.readline()
    sys.stdout.write('{"last":true}')
    sys.stderr.write("it hurts\n")
    raise SystemExit(3)


def stubborn() -> None:
    """
    Ignores SIGTERM and the end of its input, and so does what it starts; says both process ids.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(os.getpid(), child.pid, flush=True)
    time.sleep(600)


def leaves_a_child() -> None:
    """
    Answers, and exits at once; what it started ignores SIGTERM and holds its pipes open.
    """
    ready, told = os.pipe()
    pause = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"print(1, flush=True); os.write({told}, b'1'); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", pause], pass_fds=[told])
    os.read(ready, 1)
    print(child.pid, flush=True)


def deaf() -> None:
    """
    Reads nothing and says that it is there.
    """
    print("deaf", flush=True)
    time.sleep(600)


def closes_stdin() -> None:
    """
    Closes its input and lives on.
    """
    os.close(0)
    print("closed", flush=True)
    time.sleep(600)


def stdio_agent(*options: str) -> None:
    """
    Our transport on standard input and output: answers each line by what it asks for.
    """
    from transport_fakes import RecordingFactory, RecordingReceiver
    from twisted.internet import reactor

    from acp_twisted.transports.stdio import serve_stdio

    any_reactor: Any = reactor
    receiver = RecordingReceiver()

    def on_message(message: bytes) -> None:
        word, _, argument = message.decode().partition(" ")
        if word == "print":
            print("printed")
            os.write(1, b"written to 1\n")
            subprocess.run(["echo", "echoed"], check=True)
        elif word == "cat":
            subprocess.run(["cat"], check=True)
        elif word == "big":
            receiver.transport.send(b"x" * int(argument))
        elif word == "flags":
            import fcntl

            flags = [bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK) for fd in (0, 1, 2)]
            receiver.transport.send(repr(flags).encode())
        receiver.transport.send(b"did " + message)

    def on_end() -> None:
        any_reactor.callLater(0.1, leave)

    def leave() -> None:
        receiver.transport.send(b"bye")
        receiver.transport.close()

    receiver.on_message, receiver.on_end = on_message, on_end

    def over(ignored: None) -> None:
        sys.stderr.write(f"over {receiver.names[-1]}\n")
        if "after" in options:
            print("after")
        any_reactor.stop()

    if sys.stdout is not None:
        sys.stdout.write("before ")
    serving = serve_stdio(RecordingFactory(make=lambda: receiver), any_reactor).addCallback(over)
    serving.addErrback(
        lambda failure: (sys.stderr.write(str(failure.value)), any_reactor.callWhenRunning(any_reactor.stop))
    )
    any_reactor.run()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
