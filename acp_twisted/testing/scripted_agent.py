"""
An agent that does what it is told: the first word of a prompt's text says what.

Run it with C{python -m acp_twisted.testing.scripted_agent}, on standard input and output or, with C{--listen}, on any
Twisted endpoints; there it says on standard error where each of them is (C{listening on tcp:127.0.0.1:40123}), so port
0 will do, and serves until SIGTERM or SIGINT.  Those end it in good order either way: running turns are cancelled and
answered, then it exits with status 0.  A usage error is status 2, an endpoint that can't be listened on is 1.

It speaks version 1 of the protocol.  With C{--protocol-version 2} it speaks version 2, and with both options both.

Other people's tests drive it, so what it does is fixed:

  - C{stream K [DELAY]}: the messages "1" to "K", C{DELAY} seconds apart (0 unless said otherwise), the first at once.
    When cancelled it stops, and returns C{end_turn} with C{_meta {"sent": n}}, of which the library makes
    C{cancelled}.
  - C{hang}: never ends, whatever is cancelled.
  - C{polite}: waits to be cancelled; then returns C{cancelled} with C{_meta {"stopped": true}}.
  - C{stubborn S}: waits until its Deferred is cancelled (which C{session/cancel} alone does not do), swallows that, and
    returns C{end_turn} C{S} seconds later.
  - C{fail [CODE]}: an error of that code, "asked to fail", data C{{"asked": true}}; without one C{ValueError}.
  - C{fail-on-cancel}: waits to be cancelled, then raises C{RuntimeError}.
  - C{nothing}: returns no response.
  - C{blocking S}: a blocking handler that looks every 10 ms whether it was cancelled, for C{S} seconds; C{cancelled} if
    so, else C{end_turn}.
  - C{permission [N]}: C{N} permission requests at once (1), options C{allow} and C{deny}; says a JSON array of what was
    chosen, in the order asked: the option's id, "cancelled", or "error CODE".
  - C{read PATH}, C{write PATH TEXT}: says the content, or "written".  Behind one white space after C{PATH}, the text to
    be written is taken as it is, line ends included.
  - C{run COMMAND}: runs it by C{/bin/sh -c} in a terminal: create, wait_for_exit, output, kill, release; says
    C{{"output": …, "exitCode": …}}.  When the turn is cancelled it kills the command and goes on from there.  In
    version 2 it runs the command itself, and shows it.
  - C{ask METHOD JSON}: sends that request; says its result as JSON.
  - C{cancel-ask METHOD JSON S}: cancels it after C{S} seconds, and says "cancelled"; an earlier answer is said as for
    C{ask}.
  - C{detach-ask METHOD JSON}: sends it, wants no answer, and ends its turn at once.
  - C{late S}: ends its turn at once, and tries to send the message "late" C{S} seconds later.
  - C{len}: says how many characters (code points) all text blocks have.
  - C{big N}: says C{N} times "x", in one message.
  - C{seen}: says a JSON array of what cancelled the turn before this one of the session, in order.
  - anything else, and arguments that make no sense: error -32602 with data C{{"directive": …}}.

A request to the client that fails is said as "error CODE", as one that version 2 does not have.  JSON is said without
white space.  In version 2 what is returned or raised is what the session's C{idle} reports, C{nothing} is C{end_turn},
and a prompt that is no directive is refused before it is part of the conversation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acp_twisted import AcpAgent, PromptContext, __version__, run_agent
from acp_twisted.testing._directives import Answer, Scene, find
from acp_twisted.testing._sessions import Sessions

if TYPE_CHECKING:
    from acp_twisted.testing._serving import Options


class ScriptedAgent:
    """
    The prompts of the scripted agent.
    """

    def __init__(self) -> None:
        self.sessions = Sessions()

    def accept(self, request: Any) -> None:
        """
        In version 2, refuse what is no directive.
        """
        find(request.prompt)

    async def prompt(self, request: Any, context: PromptContext) -> Answer:
        """
        Play one turn.
        """
        session = self.sessions.find(request.session_id)
        before, session.last_turn = session.last_turn, context.token
        for block in request.prompt:
            session.heard(block)
        play, arguments = find(request.prompt)
        return await play(Scene(context, session, () if before is None else before.triggers), arguments)


def build_agent(
    *,
    grace: float | None = None,
    max_duration: float | None = None,
    request_timeout: float | None = None,
    protocol_versions: Sequence[int] = (1,),
) -> AcpAgent:
    """
    The scripted agent, whose sessions are those of this object.

    @param grace: its C{cancel_grace_period}, in seconds; L{None}, here and below, is the library's default.
    @param max_duration: its C{max_prompt_duration}.
    @param request_timeout: its C{request_timeout}.
    @param protocol_versions: what it speaks.
    @raise ValueError: for a number that is negative or none.
    """
    scripted = ScriptedAgent()
    sessions = scripted.sessions
    builder = (
        AcpAgent.builder()
        .agent_info("acp_twisted-scripted-agent", __version__, "Scripted agent")
        # Whoever drives it says what it is to ask, and of whom: also what his client does not advertise.
        .capability_gates(False)
        .absolute_paths(False)
        .prompt_handler(scripted.prompt)
        .new_session_handler(sessions.new)
        .load_session_handler(sessions.load)
        .resume_session_handler(sessions.resume)
        .list_sessions_handler(sessions.list)
        .close_session_handler(sessions.close)
        .delete_session_handler(sessions.delete)
    )
    if grace is not None:
        builder.cancel_grace_period(grace)
    if max_duration is not None:
        builder.max_prompt_duration(max_duration)
    if request_timeout is not None:
        builder.request_timeout(request_timeout)
    if tuple(protocol_versions) == (1,):
        return builder.build()
    return builder.protocol_versions(*protocol_versions).accept_prompt_handler(scripted.accept).build()


def main(argv: Sequence[str] | None = None) -> None:
    """
    The program.

    @param argv: its arguments; by default those of the process.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    options: Options | None = None
    if words:  # without any, which is how benchmarks start it, there is nothing to parse
        from acp_twisted.testing._serving import parse  # noqa: PLC0415 - it takes time that most starts can save

        options = parse(words)
    agent = (
        build_agent()
        if options is None
        else build_agent(
            grace=options.grace,
            max_duration=options.max_duration,
            request_timeout=options.request_timeout,
            protocol_versions=options.protocol_versions,
        )
    )
    if options is None or not options.listen:
        run_agent(agent)
    else:
        from acp_twisted.testing._serving import serve_until_stopped  # noqa: PLC0415 - as above

        serve_until_stopped(agent, options.listen)


if __name__ == "__main__":
    main()
