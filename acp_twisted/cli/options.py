"""
The command line of C{acp-twisted}.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from math import isfinite

from attrs import frozen

from acp_twisted._version import __version__

_EPILOG = """\
exit status:
  0  the turn was answered            4  the agent answered an error
  2  usage error                      5  the agent could not be started, or the link was lost
  3  the turn was cancelled           6  timed out

^C cancels the turn and still prints its answer; a second ^C leaves (130).
"""


@frozen(kw_only=True)
class PromptOptions:
    """
    What C{acp-twisted prompt} was told.

    @ivar text: the prompt.
    @ivar command: the agent's program and its arguments; empty with an C{endpoint}.
    @ivar endpoint: the Twisted client endpoint of a running agent.
    @ivar cwd: the session's directory, absolute.
    @ivar cancel_after: seconds after the prompt was sent.
    @ivar cancel_after_updates: that many updates of the turn.
    @ivar how: C{session} (C{session/cancel}) or C{request} (C{$/cancel_request}).
    @ivar timeout: seconds for the whole run.
    @ivar permit: C{allow}, C{deny}, C{ask}, C{hold}; L{None} is C{ask} at a terminal and C{deny} elsewhere.
    @ivar json: write JSON lines.
    @ivar protocol: the protocol versions that may be spoken.
    """

    text: str
    command: Sequence[str] = ()
    endpoint: str | None = None
    cwd: str
    cancel_after: float | None = None
    cancel_after_updates: int | None = None
    how: str = "session"
    timeout: float | None = None
    permit: str | None = None
    json: bool = False
    protocol: tuple[int, ...] = (1,)


def _seconds(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not (isfinite(value) and value >= 0):
        raise ArgumentTypeError(f"{word!r} is no number of seconds that is zero or more")
    return value


def _positive_seconds(word: str) -> float:
    value = _seconds(word)
    if not value:
        raise ArgumentTypeError("there is no time in 0 seconds")
    return value


def _count(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 19):
        raise ArgumentTypeError(f"{word!r} is no whole number that is zero or more")
    return int(word)


def _versions(word: str) -> tuple[int, ...]:
    if word not in ("1", "2", "2,1", "1,2"):
        raise ArgumentTypeError(f"{word!r} is none of 1, 2 and 2,1")
    return tuple(int(each) for each in word.split(","))


def parse(words: Sequence[str]) -> PromptOptions:
    """
    Read the command line.

    @param words: what stands behind the name of the program.  What stands behind the first C{--} is the agent's
        command.
    @raise SystemExit: with status 2 and a message on standard error when it makes no sense; with 0 after C{--help} and
        C{--version}.
    """
    ours, command = list(words), None
    if "--" in ours:
        at = ours.index("--")
        ours, command = ours[:at], ours[at + 1 :]
    parser, prompt = _parsers()
    found = parser.parse_args(ours)
    if found.what is None:
        parser.error("say what to do: prompt or conductor")
    if command is not None and found.connect is not None:
        prompt.error("name a command behind -- or an endpoint with --connect, not both")
    if command is None and found.connect is None:
        prompt.error("name the agent: its command behind --, or --connect ENDPOINT")
    if command is not None and not (command and command[0]):
        prompt.error("there is no command behind --")
    if found.connect is not None:
        problem = _endpoint_problem(found.connect)
        if problem is not None:
            prompt.error(f"--connect {found.connect}: {problem}")
    return _options(prompt, found, command or ())


def _parsers() -> tuple[ArgumentParser, ArgumentParser]:
    parser = ArgumentParser(
        prog="acp-twisted", description="Talk to agents of the Agent Client Protocol.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"acp-twisted {__version__}")
    commands = parser.add_subparsers(dest="what", metavar="COMMAND")
    commands.add_parser("conductor", help="run a chain of proxies and an agent: see conductor --help", add_help=False)
    prompt = commands.add_parser(
        "prompt",
        help="send one prompt to an agent and print its answer as it comes",
        description="Start an agent, or connect to one, send one prompt, and print the answer as it comes.",
        usage="acp-twisted prompt TEXT [options] (-- COMMAND... | --connect ENDPOINT)",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    prompt.add_argument("text", metavar="TEXT", help="the prompt")
    prompt.add_argument(
        "--connect",
        metavar="ENDPOINT",
        help="a Twisted client endpoint, such as tcp:localhost:8123, or a URL: https://host/acp, wss://host/acp",
    )
    prompt.add_argument("--cwd", metavar="DIR", default=".", help="the session's directory (the current one)")
    when = prompt.add_mutually_exclusive_group()
    when.add_argument("--cancel-after", metavar="S", type=_seconds, help="cancel the turn after S seconds")
    when.add_argument("--cancel-after-updates", metavar="N", type=_count, help="cancel the turn after N updates")
    prompt.add_argument(
        "--how",
        choices=("session", "request"),
        default="session",
        help="how to cancel: by session/cancel (the default) or by $/cancel_request",
    )
    prompt.add_argument("--timeout", metavar="S", type=_positive_seconds, help="give up after S seconds")
    prompt.add_argument(
        "--permit",
        choices=("allow", "deny", "ask", "hold"),
        help="what to answer when the agent asks for permission: the first option that allows or denies, what you "
        "choose at the terminal, or nothing (ask at a terminal, else deny)",
    )
    prompt.add_argument("--json", action="store_true", help="print one JSON object a line")
    prompt.add_argument(
        "--protocol",
        metavar="VERSION",
        type=_versions,
        default=(1,),
        help="the protocol version: 1 (the default), 2, or 2,1 for the higher one that the agent speaks",
    )
    return parser, prompt


def _options(prompt: ArgumentParser, found: Namespace, command: Sequence[str]) -> PromptOptions:
    cwd = os.path.abspath(found.cwd)
    if not os.path.isdir(cwd):
        prompt.error(f"--cwd {found.cwd}: there is no such directory")
    return PromptOptions(
        # Whatever the locale makes of the command line, it was typed in UTF-8.
        text=os.fsencode(found.text).decode(errors="replace"),
        command=tuple(command),
        endpoint=found.connect,
        cwd=cwd,
        cancel_after=found.cancel_after,
        cancel_after_updates=found.cancel_after_updates,
        how=found.how,
        timeout=found.timeout,
        permit=found.permit,
        json=found.json,
        protocol=found.protocol,
    )


def _endpoint_problem(description: str) -> str | None:
    """
    What is wrong with an endpoint, if anything.
    """
    if "://" in description:
        from acp_twisted.transports.http.url import AgentUrl  # noqa: PLC0415 - not everybody's agent is remote

        try:
            AgentUrl(url=description)
        except ValueError as error:
            return str(error)
        return None
    from twisted.internet import endpoints, reactor  # noqa: PLC0415 - a program chooses its reactor when it runs

    try:
        endpoints.clientFromString(reactor, description)
    except Exception as error:  # whatever the endpoint's own parser makes of it
        return str(error) or type(error).__name__
    return None
