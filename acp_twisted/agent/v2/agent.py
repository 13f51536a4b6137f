"""
An agent that speaks several versions of the protocol, and how it is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, fields, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from acp_twisted._version import __version__
from acp_twisted.agent.agent import AcpAgent, AcpAgentBuilder, without_blocking
from acp_twisted.agent.blocking import is_blocking
from acp_twisted.agent.v2.convert import auth_method, capabilities
from acp_twisted.agent.v2.router import Negotiation
from acp_twisted.builder import advertise
from acp_twisted.extensions import typed
from acp_twisted.gates import Gates
from acp_twisted.gates_v2 import RULES
from acp_twisted.handlers import Bound, Handler, Handlers, outcome, two_arguments
from acp_twisted.interfaces import IMessageReceiver
from acp_twisted.schema import v2
from acp_twisted.schema.vocabulary import V1, vocabulary
from acp_twisted.turn.result import TurnResult

if TYPE_CHECKING:
    from typing_extensions import Self

VERSIONS: Final = (1, 2)
"""What this library speaks."""

SPELLED_OTHERWISE: Final = {"auth/login": "authenticate", "auth/logout": "logout"}
"""Methods of version 2 that version 1 has under another name."""


@frozen(kw_only=True)
class SecondHalf:
    """
    What an agent is in the words of version 2.

    @ivar handlers: the handlers, by the methods of version 2.
    @ivar load: who replays a session: the handler of what is C{session/load} in version 1.
    @ivar resume_replays: whether the handler of C{session/resume} was made for version 2, and replays what is wanted;
        not when one of C{session/load} was made for version 2 too.
    @ivar accept: who decides whether a prompt becomes part of the conversation.
    """

    prompt: Bound
    prompt_blocks: bool
    handlers: Handlers
    load: Bound | None
    resume_replays: bool
    accept: Bound | None
    info: v2.Implementation
    capabilities: v2.AgentCapabilities
    auth_methods: Sequence[v2.AuthMethod]
    gates: Gates


@frozen(kw_only=True)
class VersionedAgent(AcpAgent):
    """
    An agent that speaks version 2, version 1, or both, each connection the one that its client asks for.  Made by
    L{AcpAgent.builder().protocol_versions(1, 2)<acp_twisted.agent.agent.AcpAgentBuilder.protocol_versions>}.

    @ivar versions: the versions that it speaks.
    @ivar second: what it is in the words of version 2; the rest of it is in those of version 1.
    @ivar august_draft: whether it takes what only the draft of August 2026 allows.
    """

    versions: Sequence[int]
    second: SecondHalf
    august_draft: bool = False

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        """
        See L{IMessageReceiverFactory<acp_twisted.interfaces.IMessageReceiverFactory>}.
        """
        return self.connect(clock).peer

    def connect(self, clock: IReactorTime) -> Negotiation:  # type: ignore[override]  # its version is not known yet
        """
        The agent's side of one new connection, whose C{peer} is to be given to a transport.
        """
        return Negotiation(self, clock)


class VersionedAgentBuilder(AcpAgentBuilder):
    """
    An L{AcpAgentBuilder} for an agent that speaks version 2, version 1, or both.

    A handler serves both versions where both have its method: it is given the request in the words of its connection's
    version, whose classes are in C{connection.schema} and C{context.schema}, and answers in these.  An answer of
    version 1 that looks alike in version 2, such as C{v1.NewSessionResponse}, does too.  L{for_versions} sets handlers
    for one version only.

    A prompt handler returns a L{TurnResult<acp_twisted.turn.result.TurnResult>}, a stop reason, or nothing, which is
    C{end_turn}.
    """

    _versions: tuple[int, ...]
    _for: frozenset[int]
    _second: Handlers
    _first_only: set[str]
    _second_prompt: tuple[Bound, bool] | None
    _second_load: Bound | None
    _accept: Bound | None
    _second_capabilities: v2.AgentCapabilities | None
    _second_auth_methods: Sequence[v2.AuthMethod] | None
    _august_draft: bool

    @classmethod
    def going_on(cls, builder: AcpAgentBuilder, versions: Sequence[int]) -> VersionedAgentBuilder:
        """
        A builder that has what another one has.

        @raise ValueError: when there is no version, or one that this library does not speak.
        """
        if not versions or set(versions) - set(VERSIONS):
            raise ValueError(f"the protocol versions are some of {VERSIONS}, not {tuple(versions)}")
        made = cls.__new__(cls)
        vars(made).update(vars(builder))
        made._versions = tuple(sorted(set(versions)))
        if isinstance(builder, VersionedAgentBuilder):
            return made
        made._for = frozenset(VERSIONS)
        made._second = Handlers()
        made._first_only = set()
        made._second_prompt = None
        made._second_load = None
        made._accept = None
        made._second_capabilities = None
        made._second_auth_methods = None
        made._august_draft = False
        return made

    def for_versions(self, *versions: int) -> Self:
        """
        The handlers that are set from now on are for these versions only.

        @raise ValueError: when there is no version, or one that this library does not speak.
        """
        if not versions or set(versions) - set(VERSIONS):
            raise ValueError(f"the protocol versions are some of {VERSIONS}, not {versions}")
        self._for = frozenset(versions)
        return self

    def august_draft(self, take: bool = True) -> Self:
        """
        Whether connections of version 2 take what its draft of August 2026 allows and today's does not: JSON-RPC
        batches, of at most C{Limits.max_batch_entries}, and requests whose id is null.  They are refused with -32600
        unless this is said.  Nothing of it is ever sent but the answers to a batch, which are one array.
        """
        self._august_draft = take
        return self

    @property
    def chosen_versions(self) -> tuple[int, ...]:
        """
        The versions that handlers are set for at present: what L{for_versions} was told last.
        """
        return tuple(sorted(self._for))

    @property
    def spoken_versions(self) -> tuple[int, ...]:
        """
        The versions of the protocol that the agent will speak.
        """
        return self._versions

    def handles(self, method: str, version: int = 1) -> bool:
        """
        Whether a method has a handler already; see L{AcpAgentBuilder.handles}.
        """
        if version != 2:
            return super().handles(method, version)
        if method == "session/prompt":
            return self._prompt_of_second() is not None
        return method in self._second_handlers()

    def _on(self, method: str, handler: Handler, setter: str) -> Self:
        if self._for == {2}:
            return self._on_second(method, handler, setter)
        if self._for == {1}:
            self._first_only.add(method)
        return super()._on(method, handler, setter)

    def _on_second(self, method: str, handler: Handler, setter: str) -> Self:
        """
        @param method: its name in version 1.
        """
        name = {first: second for second, first in SPELLED_OTHERWISE.items()}.get(method, method)
        if method == "session/load":
            if self._second_load is not None:
                raise ValueError(f"{setter}: {method} has a handler already")
            self._second_load = two_arguments(without_blocking(handler, setter), setter)
            return self
        if V1.get(method) is not None and vocabulary(2).get(name) is None:
            raise ValueError(f"{setter}: version 2 has no {method}")
        return self._only_second(name, handler, setter)

    def _on_extension(self, method: str, handler: Handler, setter: str, params: type | None) -> Self:
        if self._for == {2}:
            handler = without_blocking(handler, setter)
            if params is not None:
                handler = typed(handler, params, setter, answered=setter == "ext_request_handler")
            self._second.add_extension(method, handler, setter)
            return self
        if self._for == {1}:
            self._first_only.add(method)
        return super()._on_extension(method, handler, setter, params)

    def prompt_handler(self, handler: Handler, *, blocking: bool = False) -> Self:
        """
        What answers C{session/prompt}; see L{AcpAgentBuilder.prompt_handler}.  In version 2 it is called when the
        message is part of the conversation, and its C{context} is a
        L{PromptContext<acp_twisted.agent.v2.context.PromptContext>} of that version.
        """
        if self._for != {2}:
            if self._for == {1}:
                self._first_only.add("session/prompt")
            return super().prompt_handler(handler, blocking=blocking)
        if self._second_prompt is not None:
            raise ValueError("prompt_handler: session/prompt has a handler already")
        self._second_prompt = two_arguments(handler, "prompt_handler"), blocking or is_blocking(handler)
        return self

    # ---- what only version 2 has

    def _only_second(self, method: str, handler: Handler, setter: str) -> Self:
        self._second.add(method, without_blocking(handler, setter), setter)
        return self

    def login_handler(self, handler: Handler) -> Self:
        """
        Version 2.  Answer C{auth/login}, if not with the L{authenticate_handler}.
        """
        return self._only_second("auth/login", handler, "login_handler")

    def accept_prompt_handler(self, handler: Handler) -> Self:
        """
        Version 2.  Be asked of each prompt, when its turn has come, whether it may become part of the conversation.
        What this raises is what the prompt is refused with, and the client may send it again.  It takes its time if it
        wants: until it has decided, the prompt can be cancelled.  It returns nothing, or the message's id.
        """
        if self._accept is not None:
            raise ValueError("accept_prompt_handler: there is one already")
        self._accept = two_arguments(without_blocking(handler, "accept_prompt_handler"), "accept_prompt_handler")
        return self

    def cancel_tool_call_handler(self, handler: Handler) -> Self:
        """
        Version 2.  Answer C{tool_call/cancel} for tool calls that say that they can be cancelled, and bring nothing of
        their own to do it with.
        """
        return self._only_second("tool_call/cancel", handler, "cancel_tool_call_handler")

    def cancel_terminal_handler(self, handler: Handler) -> Self:
        """
        Version 2.  Answer C{terminal/cancel} for terminals that say that they can be cancelled, and bring nothing of
        their own to do it with.
        """
        return self._only_second("terminal/cancel", handler, "cancel_terminal_handler")

    def agent_capabilities_v2(self, capabilities: v2.AgentCapabilities) -> Self:
        """
        What the agent can do in version 2, in place of what follows from its handlers and from what it can do in
        version 1.
        """
        self._second_capabilities = capabilities
        return self

    def auth_methods_v2(self, methods: Sequence[v2.AuthMethod]) -> Self:
        """
        The ways to log in in version 2, in place of C{auth_methods} in its words.
        """
        self._second_auth_methods = tuple(methods)
        return self

    # ---- the agent

    def build(self) -> AcpAgent:
        """
        The agent.

        @raise ValueError: see L{AcpAgentBuilder.build}; also when there are ways to log in and no handlers for that.
        """
        if self._versions == (1,):
            return super().build()
        prompt = self._prompt_of_second()
        if prompt is None:
            raise ValueError("an agent needs a prompt_handler, for version 2 too")
        first = self._build_first(prompt)
        handlers = self._second_handlers()
        methods = self._login_methods()
        self._check_auth(methods, handlers)
        words = vocabulary(2)
        second = SecondHalf(
            prompt=prompt[0],
            prompt_blocks=prompt[1],
            handlers=handlers,
            load=self._second_load
            or (None if "session/load" in self._first_only else self._handlers.get("session/load")),
            resume_replays="session/resume" in self._second and self._second_load is None,
            accept=self._accept,
            info=self._second_info(),
            capabilities=self._second_capabilities or self._derived(first, handlers),
            auth_methods=methods,
            gates=self._gates(words, RULES),
        )
        told = {each.name: getattr(first, each.name) for each in fields(AcpAgent)}
        told["prompt"] = _ending(first.prompt)
        return VersionedAgent(**told, versions=self._versions, second=second, august_draft=self._august_draft)

    def _prompt_of_second(self) -> tuple[Bound, bool] | None:
        """
        What answers prompts in version 2, and whether it blocks.
        """
        if self._second_prompt is not None or self._prompt is None or "session/prompt" in self._first_only:
            return self._second_prompt
        return self._prompt, self._prompt_blocks

    def _build_first(self, prompt: tuple[Bound, bool]) -> AcpAgent:
        """
        The agent of version 1; where there will be none, it need not be whole.
        """
        if 1 in self._versions:
            return super().build()
        stand_in = AcpAgentBuilder()
        vars(stand_in).update({name: value for name, value in vars(self).items() if name in vars(stand_in)})
        stand_in._prompt, stand_in._prompt_blocks = prompt
        stand_in._auth_methods = ()
        return evolve(stand_in.build(), auth_methods=self._auth_methods)

    def _second_handlers(self) -> Handlers:
        """
        The handlers by the methods of version 2: those for that version only, and the rest where both have the method.
        """
        names = {each.name for each in vocabulary(2).methods}
        return self._handlers.chosen(
            lambda method: method not in self._first_only and (method in names or method.startswith("_")),
            {second: first for second, first in SPELLED_OTHERWISE.items() if first not in self._first_only},
            self._second,
        )

    @property
    def promises_login(self) -> bool:
        """
        Whether a client of version 2 is told of a way to log in that goes through the agent.
        """
        return any(isinstance(each, v2.AuthMethodAgent) for each in self._login_methods())

    def _login_methods(self) -> list[v2.AuthMethod]:
        if self._second_auth_methods is not None:
            return list(self._second_auth_methods)
        return [auth_method(each) for each in self._auth_methods]

    @staticmethod
    def _check_auth(methods: Sequence[Any], handlers: Handlers) -> None:
        """
        With ways to log in, both of the methods must be answered (2.02).
        """
        if not any(isinstance(each, v2.AuthMethodAgent) for each in methods):
            return
        needed = {"auth/login": "authenticate_handler or login_handler", "auth/logout": "logout_handler"}
        missing = [setter for method, setter in needed.items() if method not in handlers]
        if missing:
            raise ValueError(f"the agent's auth_methods promise what nothing handles: they need {', '.join(missing)}")

    def _second_info(self) -> v2.Implementation:
        info = self._info
        if info is None:
            return v2.Implementation(name="acp_twisted", version=__version__)
        return v2.Implementation(name=info.name, version=info.version, title=info.title)

    @staticmethod
    def _derived(first: AcpAgent, handlers: Handlers) -> v2.AgentCapabilities:
        made = capabilities(first.capabilities)
        words = vocabulary(2)
        gated: dict[str, list[str]] = {}
        for method in words.methods:
            if method.direction == "agent" and method.capability is not None and method.kind == "request":
                gated.setdefault(method.capability, []).append(method.name)
        for capability, names in gated.items():
            if capability != "session" and all(name in handlers for name in names):
                advertise(words, made, capability)
        return made


def _ending(handler: Bound) -> Bound:
    """
    A prompt handler of version 1 that may return nothing, as in version 2.
    """

    def end(result: Any) -> Any:
        return TurnResult() if result is None else result

    def call(request: Any, context: Any) -> Any:
        result = outcome(handler(request, context))
        return result.addCallback(end) if isinstance(result, Deferred) else end(result)

    return call
