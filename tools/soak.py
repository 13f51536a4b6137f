#!/usr/bin/env python3
"""
Random conversations between the two halves against the model, for as many steps as one likes.

    python tools/soak.py --steps 1000000
    python tools/soak.py --steps 100000 --seed 7       the same conversations again
    python tools/soak.py --protocol 2                  conversations of version 2

It is the machine of C{tests/test_conversation_machine.py} or C{tests/test_conversation_machine_v2.py}; one step is one
thing that happens (a prompt, a cancel, a message that arrives, a timer).  A million takes some ten minutes on one free
core.  A conversation that breaks a rule is printed as short as it can be made, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from twisted.logger import globalLogBeginner

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the machine; the exit status is 0 when every rule was kept."""
    parser = argparse.ArgumentParser(description="Random conversations against the model.")
    parser.add_argument("--steps", type=int, default=1_000_000, help="how many steps at least (1000000)")
    parser.add_argument("--seed", type=int, default=None, help="the seed of an earlier run, to repeat it")
    parser.add_argument("--protocol", choices=("1", "2"), default="1", help="the version of the protocol (1)")
    options = parser.parse_args(arguments)
    machine = importlib.import_module("test_conversation_machine" + ("_v2" if options.protocol == "2" else ""))
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    # What the conversations log is looked at by the machine, and would be too much to read.
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    say(f"seed {seed}")
    started = time.monotonic()
    steps = runs = 0
    try:
        while steps < options.steps:
            steps += machine.run(machine.CONVERSATIONS_A_RUN, seed=seed + runs)
            runs += 1
            say(f"{steps} steps, {time.monotonic() - started:.0f} s")
    except Exception:
        traceback.print_exc()
        say(f"failed after {machine.Conversation.steps} steps; seed {seed}, run {runs} of it")
        return 1
    seconds = time.monotonic() - started
    say(f"ran {steps} steps in {machine.Conversation.conversations} conversations, {seconds:.0f} s, seed {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
