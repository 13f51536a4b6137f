"""
Stands between a client and an agent, and writes down what passes.

    python wiretap.py FILE [--mend OLD NEW] AGENT [ARGUMENT...]

With C{--mend} it replaces a text in what the client says, so that a client that is wrong from the start gets further.
Each line of FILE is C{{"from": "client" | "agent", "line": TEXT}}, in the order in which the lines passed; the last is
C{{"from": "end", "code": N}}.  Standard library only, since it runs for any client.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any


class Tap:
    """
    The file that is written to.
    """

    def __init__(self, path: Path, old: str, new: str) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._old, self._new = old.encode(), new.encode()
        self._lock = threading.Lock()

    def note(self, **entry: object) -> None:
        """
        Write one entry, at once.
        """
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()

    def pass_on(self, name: str, source: IO[bytes], sink: IO[bytes]) -> None:
        """
        Carry lines over until the source or the sink is closed; then close the sink.
        """
        try:
            for read in iter(source.readline, b""):
                line = read.replace(self._old, self._new) if name == "client" and self._old else read
                self.note(**{"from": name, "line": line.decode("utf-8", "replace")})
                sink.write(line)
                sink.flush()
        except (BrokenPipeError, ValueError):
            self.note(**{"from": name, "line": "", "broken": True})
        finally:
            try:
                sink.close()
            except BrokenPipeError:
                self.note(**{"from": name, "line": "", "broken": True})


def main(arguments: Sequence[str]) -> int:
    path, command, old, new = Path(arguments[0]), arguments[1:], "", ""
    if command[0] == "--mend":
        old, new, command = command[1], command[2], command[3:]
    tap = Tap(path, old, new)
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def forward(number: int, frame: Any) -> None:
        agent.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    assert agent.stdin is not None
    assert agent.stdout is not None
    threads = [
        threading.Thread(target=tap.pass_on, args=("client", sys.stdin.buffer, agent.stdin), daemon=True),
        threading.Thread(target=tap.pass_on, args=("agent", agent.stdout, sys.stdout.buffer), daemon=True),
    ]
    for thread in threads:
        thread.start()
    code = agent.wait()
    threads[1].join()
    tap.note(**{"from": "end", "code": code})
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    # Not sys.exit: a thread that still reads the input would make the interpreter's own end fail.
    os._exit(main(sys.argv[1:]))
