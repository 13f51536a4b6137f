"""
What may pass between two peers: rules as data, for each version of the protocol, and what holds messages to them.

A message that needs what the peer did not advertise is not sent (1.17); what a response or an update may only show to
some peers is left out of it for the others (1.33, 1.91); a path is absolute, whoever sends it (1.01).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, field, frozen
from twisted.logger import Logger

from acp_twisted.errors import AcpCapabilityError, InvalidParams
from acp_twisted.schema.values import UNSET, Model
from acp_twisted.schema.vocabulary import Vocabulary

_log = Logger()

_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[\\/]|\\\\[^\\/]")
_ANYTHING: Final = object()
_SEVERAL: Final = (list, tuple)


def is_absolute(path: str) -> bool:
    r"""
    Whether a path is absolute where the peer lives: C{/tmp}, C{C:\tmp}, C{C:/tmp}, or C{\\server\share}.
    """
    return path[:1] == "/" or _ABSOLUTE.match(path) is not None


def advertises(capabilities: object, capability: str) -> bool:
    """
    Whether capabilities have what the dotted name says, such as C{fs.readTextFile}: it is there, and neither null nor
    false.

    @param capabilities: an object of the schema, such as L{v1.ClientCapabilities<acp_twisted.schema.v1>}.
    """
    value: Any = capabilities
    for name in capability.split("."):
        attribute = _attribute(type(value), name)
        if attribute is None:
            return False
        value = getattr(value, attribute)
    return value is not None and value is not UNSET and value is not False


def advertises_beside(capabilities: object, came: object, capability: str) -> bool:
    """
    The same for what the schema does not know, such as the capabilities of a module.  What it does know only counts if
    it is as the schema wants it.

    @param came: the capabilities as they came, in JSON.
    """
    if _attribute(type(capabilities), capability.partition(".")[0]) is not None:
        return False
    value = came
    for name in capability.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value is not None and value is not False


_attributes: Final[dict[tuple[type, str], str | None]] = {}


def _attribute(kind: type, name: str) -> str | None:
    """
    The attribute that has a member's name on the wire.
    """
    key = kind, name
    try:
        return _attributes[key]
    except KeyError:
        wire = kind.WIRE if issubclass(kind, Model) else {}
        found = _attributes[key] = next((each for each, spelled in wire.items() if spelled[0] == name), None)
        return found


def _values(message: Any, members: Sequence[str]) -> list[Any]:
    """
    What stands at a path of attributes, through lists, and as far as there is anything.
    """
    found = [message]
    for member in members:
        below: list[Any] = []
        for each in found:
            value = getattr(each, member, None)
            if value is None or value is UNSET:
                continue
            if isinstance(value, _SEVERAL):
                below += value
            else:
                below.append(value)
        if not below:
            return below
        found = below
    return found


def _relative(message: Any, where: tuple[str, ...]) -> bool:
    """
    Whether one of the paths there is not absolute.
    """
    items = [message]
    if len(where) == 2:  # most are in the items of a list, and of many updates
        items = getattr(message, where[0])
        if items is None or items is UNSET:
            return False
        if items.__class__ is not list and not isinstance(items, _SEVERAL):
            items = [items]
    elif len(where) > 2:
        items = _values(message, where[:-1])
    member = where[-1]
    for each in items:
        path = getattr(each, member, None)
        if path.__class__ is str:
            if path[:1] != "/" and not is_absolute(path):
                return True
        elif path is not None and path is not UNSET and not _all_absolute(path, where):
            return True
    return False


def _all_absolute(path: object, where: Sequence[str]) -> bool:
    """
    The same for what is rarer than one plain string.

    @raise TypeError: when it is no string and no list of them, a L{pathlib.Path} say.
    """
    for each in path if isinstance(path, _SEVERAL) else [path]:
        if not isinstance(each, str):
            raise TypeError(f"{'.'.join(where)}: a path is a str, and this is a {type(each).__name__}; pass str(…)")
        if not is_absolute(each):
            return False
    return True


def _split(members: str) -> tuple[str, ...]:
    return tuple(members.split(".")) if members else ()


@frozen
class Need:
    """
    That a message needs a capability: always, or when something in it is there.

    @ivar capability: its dotted name.
    @ivar members: where to look, as a path of attributes that goes through lists; without one the message always needs
        the capability, and with one it does when anything is there.
    @ivar kind: the name of the class that must be there.
    @ivar value: the value that must be there.
    """

    capability: str
    members: tuple[str, ...] = field(default="", converter=_split)
    kind: str | None = None
    value: object = _ANYTHING

    def concerns(self, message: object) -> bool:
        """
        Whether this message needs it.
        """
        for each in _values(message, self.members):
            if self.kind is not None and type(each).__name__ != self.kind:
                continue
            if self.value is _ANYTHING or each == self.value:
                return True
        return False


@frozen
class LeftOut:
    """
    That items of a list are only for peers with a capability.

    @ivar member: the attribute with the list.
    @ivar kind: the name of the items' class.
    @ivar capability: its dotted name.
    """

    member: str
    kind: str
    capability: str

    def concerns(self, message: object) -> bool:
        """
        Whether there is such an item in a message.
        """
        for each in getattr(message, self.member) or ():  # noqa: SIM110 - a generator takes as long as all the rest
            if type(each).__name__ == self.kind:
                return True
        return False


@frozen(kw_only=True)
class Rules:
    """
    The rules of one version of the protocol, by the names of its classes.

    @ivar needs: what is needed besides the capability of the message's method.
    @ivar refused: what this side must have advertised for a request of the peer's; it is refused with -32602 if it did
        not.  What needs an empty name is always refused.
    @ivar left_out: what is left out of a message for some peers.
    @ivar paths: where a message has paths, as paths of attributes.
    @ivar shown: the same, where a path is only shown to the user, so that a relative one of the peer's does no harm.
    @ivar inside: the attribute of a message that holds another one, to which these rules apply too.
    """

    needs: Mapping[str, Sequence[Need]] = field(factory=dict)
    refused: Mapping[str, Sequence[Need]] = field(factory=dict)
    left_out: Mapping[str, Sequence[LeftOut]] = field(factory=dict)
    paths: Mapping[str, Sequence[str]] = field(factory=dict)
    shown: Mapping[str, Sequence[str]] = field(factory=dict)
    inside: Mapping[str, str] = field(factory=dict)


@frozen
class _Plan:
    """
    All that the rules say of one class.
    """

    needs: tuple[Need, ...]
    left_out: tuple[LeftOut, ...]
    paths: tuple[tuple[str, ...], ...]
    strict: tuple[tuple[str, ...], ...]
    refused: tuple[Need, ...]
    inside: str | None


class Gates:
    """
    Holds messages to the rules.  One object serves any number of connections.

    @ivar capabilities: whether what the peer advertised counts.
    @ivar paths: whether paths must be absolute.
    """

    def __init__(self, vocabulary: Vocabulary, rules: Rules, *, capabilities: bool = True, paths: bool = True) -> None:
        self.capabilities = capabilities
        self.paths = paths
        self._vocabulary = vocabulary
        self._rules = rules
        self._plans: dict[type, _Plan | None] = {}

    def outgoing(self, message: Any, advertised: object) -> Any:
        """
        A message as it may be sent.

        @param message: params or a result, as an object of the schema.
        @param advertised: the capabilities of the peer.
        @return: the message, without what the peer must not be shown.
        @raise AcpCapabilityError: when it needs what the peer did not advertise.
        @raise ValueError: when a path in it is not absolute.
        @raise TypeError: when a path in it is no string.
        """
        try:
            plan = self._plans[type(message)]  # the way of nearly every message
        except KeyError:
            plan = self._plan(type(message))
        if plan is None:
            return message
        if plan.inside is not None:
            inner = getattr(message, plan.inside)
            if self._plans.get(type(inner), plan) is not None:
                fitting = self.outgoing(inner, advertised)
                message = message if fitting is inner else evolve(message, **{plan.inside: fitting})
        if self.paths:
            for where in plan.paths:
                if _relative(message, where):
                    what = f"{'.'.join(where)} of a {type(message).__name__}"
                    raise ValueError(f"{what} must be absolute, as /tmp is or C:\\tmp")
        if not self.capabilities:
            return message
        for need in plan.needs:
            if not advertises(advertised, need.capability) and need.concerns(message):
                raise AcpCapabilityError(need.capability)
        for each in plan.left_out:
            if each.concerns(message) and not advertises(advertised, each.capability):
                message = _without(message, each)
        return message

    def incoming(self, message: object, advertised: object) -> None:
        """
        Hold the params of a peer's request to the rules.

        @param advertised: the capabilities of this side.
        @raise InvalidParams: when a path is not absolute, or something was not advertised.
        """
        plan = self._plan(type(message))
        if plan is None:
            return
        if self.paths:
            for where in plan.strict:
                if _relative(message, where):
                    path = ".".join(("$", *_wire_path(type(message), where)))
                    raise InvalidParams(data=[{"path": path, "reason": "must be absolute"}])
        for need in plan.refused if self.capabilities else ():
            if not advertises(advertised, need.capability) and need.concerns(message):
                path = ".".join(("$", *_wire_path(type(message), need.members)))
                raise InvalidParams(data=[{"path": path, "reason": f"{need.capability or 'it'} is not advertised"}])

    def _plan(self, kind: type) -> _Plan | None:
        try:
            return self._plans[kind]
        except KeyError:
            plan = self._plans[kind] = self._make(kind)
            return plan

    def _make(self, kind: type) -> _Plan | None:
        rules = self._rules
        # The class that the rules name may be a base of this one.
        names = [each.__name__ for each in kind.__mro__ if issubclass(each, Model)]

        def find(table: Mapping[str, Any]) -> Any:
            return next((table[name] for name in names if name in table), None)

        method = self._vocabulary.for_params(kind)
        needs = tuple(find(rules.needs) or ())
        if method is not None and method.capability is not None:
            needs += (Need(method.capability),)
        strict = tuple(_split(each) for each in find(rules.paths) or ())
        shown = tuple(_split(each) for each in find(rules.shown) or ())
        plan = _Plan(
            needs,
            tuple(find(rules.left_out) or ()),
            strict + shown,
            strict,
            tuple(find(rules.refused) or ()),
            find(rules.inside),
        )
        return None if plan == _NOTHING else plan


_NOTHING: Final = _Plan((), (), (), (), (), None)


def _without(message: Any, rule: LeftOut) -> Any:
    items = getattr(message, rule.member)
    kept = [each for each in items if type(each).__name__ != rule.kind]
    _log.warn(
        "{count} {kind} are left out of a {message}, for the peer does not advertise {capability}",
        count=len(items) - len(kept),
        kind=rule.kind,
        message=type(message).__name__,
        capability=rule.capability,
    )
    return evolve(message, **{rule.member: kept})


def _wire_path(kind: type, where: Sequence[str]) -> Iterator[str]:
    wire = getattr(kind, "WIRE", {})
    for each in where:
        yield wire.get(each, (each,))[0]
        wire = {}


# ---- version 1

_SYSTEM_PROMPT: Final = (
    Need("sessionCapabilities.systemPrompt", "system_prompt"),
    Need("sessionCapabilities.systemPrompt.mode.override", "system_prompt.mode", value="override"),
)
_OPENS_SESSION: Final = (
    Need("mcpCapabilities.http", "mcp_servers", "McpServerHttp"),
    Need("mcpCapabilities.sse", "mcp_servers", "McpServerSse"),
    Need("mcpCapabilities.acp", "mcp_servers", "McpServerAcp"),
    Need("sessionCapabilities.additionalDirectories", "additional_directories"),
    *_SYSTEM_PROMPT,
)
_BOOLEANS: Final = (LeftOut("config_options", "SessionConfigBoolean", "session.configOptions.boolean"),)
_ROOTS: Final = ("cwd", "additional_directories")
_TOOL_CALL: Final = ("locations.path", "content.path")

V1_RULES: Final = Rules(
    needs={
        "NewSessionRequest": _OPENS_SESSION,
        "LoadSessionRequest": _OPENS_SESSION,
        "ResumeSessionRequest": _OPENS_SESSION,
        "ForkSessionRequest": _OPENS_SESSION,
        "ListSessionsRequest": (Need("sessionCapabilities.archive", "archived"),),
        "PromptRequest": (
            Need("promptCapabilities.image", "prompt", "ImageContent"),
            Need("promptCapabilities.audio", "prompt", "AudioContent"),
            Need("promptCapabilities.embeddedContext", "prompt", "EmbeddedResource"),
        ),
        "ElicitationFormMode": (Need("elicitation.form"),),
        "ElicitationUrlMode": (Need("elicitation.url"),),
        "Notice": (Need("session.notices"),),
        "CompactionUpdate": (Need("session.compaction"),),
        "CompactionSummaryChunk": (Need("session.compaction"),),
        "PlanUpdate": (Need("plan"),),
        "PlanRemoved": (Need("plan"),),
        "SubagentUpdate": (Need("subagents"),),
        "SessionMessage": (Need("subagents"),),
        "SessionMessageChunk": (Need("subagents"),),
    },
    refused={
        "NewSessionRequest": _SYSTEM_PROMPT,
        "LoadSessionRequest": _SYSTEM_PROMPT,
        "ResumeSessionRequest": _SYSTEM_PROMPT,
        "ForkSessionRequest": _SYSTEM_PROMPT,
        "ElicitationFormMode": (Need("elicitation.form"),),
        "ElicitationUrlMode": (Need("elicitation.url"),),
        "CreateElicitationRequest": (Need(""),),
    },
    left_out={
        "InitializeResponse": (LeftOut("auth_methods", "AuthMethodTerminal", "auth.terminal"),),
        "NewSessionResponse": _BOOLEANS,
        "LoadSessionResponse": _BOOLEANS,
        "ResumeSessionResponse": _BOOLEANS,
        "ForkSessionResponse": _BOOLEANS,
        "SetSessionConfigOptionResponse": _BOOLEANS,
        "ConfigOptionUpdate": _BOOLEANS,
    },
    paths={
        "NewSessionRequest": _ROOTS,
        "LoadSessionRequest": _ROOTS,
        "ResumeSessionRequest": _ROOTS,
        "ForkSessionRequest": _ROOTS,
        "ListSessionsRequest": ("cwd",),
        "ReadTextFileRequest": ("path",),
        "WriteTextFileRequest": ("path",),
        "CreateTerminalRequest": ("cwd",),
    },
    shown={
        "ListSessionsResponse": ("sessions.cwd", "sessions.additional_directories"),
        "RequestPermissionRequest": tuple(f"tool_call.{each}" for each in _TOOL_CALL),
        "ToolCall": _TOOL_CALL,
        "ToolCallUpdate": _TOOL_CALL,
        "SubagentUpdate": _ROOTS,
    },
    inside={"SessionNotification": "update"},
)
"""The rules of protocol version 1, those of what is not settled included."""
