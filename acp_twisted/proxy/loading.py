"""
Components as users write them on a command line.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from acp_twisted.interfaces import IMessageReceiverFactory
from acp_twisted.transports.command import AgentCommand

_NAME: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def component(
    text: str, on_stderr: Callable[[str], object] | None = None
) -> tuple[str, AgentCommand | IMessageReceiverFactory]:
    """
    What a component of a chain is called, and what it is.

    @param text: C{package.module:name} is something in this process: an C{AcpProxy}, an C{AcpAgent}, a C{Conductor}, a
        builder of one, or a function without arguments that returns one; the current directory is searched first.
        Anything else is the command line of a program, split as a shell does.
    @param on_stderr: is given each line that the program writes to its standard error.
    @raise ValueError: says what is wrong with it.
    """
    if _NAME.fullmatch(text):
        return text, _load(text)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no command line: {error}") from error
    if not words:
        raise ValueError("an empty command line is no component")
    return os.path.basename(words[0]), AgentCommand(words, on_stderr=on_stderr)


def _load(name: str) -> IMessageReceiverFactory:
    module_name, _, attributes = name.partition(":")
    with suppress(FileNotFoundError):  # it was removed; then there is nothing in it
        here = os.getcwd()
        if here not in sys.path:
            sys.path.insert(0, here)
    try:
        found: Any = import_module(module_name)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
        if callable(found):
            found = found()
        if hasattr(found, "build"):
            found = found.build()
    except (Exception, SystemExit) as error:
        raise ValueError(f"{name}: {type(error).__name__}: {error}") from error
    if not IMessageReceiverFactory.providedBy(found):
        raise ValueError(f"{name} is a {type(found).__name__}, and neither a proxy nor an agent")
    return found
