"""
What the builders of both halves have alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from twisted.logger import Logger

from acp_twisted.extensions import typed
from acp_twisted.gates import Gates, Rules, advertises
from acp_twisted.handlers import Handler, Handlers, check_kind, check_seconds
from acp_twisted.interfaces import IInstrument
from acp_twisted.limits import Limits
from acp_twisted.schema.methods import Method, Side
from acp_twisted.schema.values import Model
from acp_twisted.schema.vocabulary import Vocabulary

if TYPE_CHECKING:
    from typing_extensions import Self


_C = TypeVar("_C", bound=Model)
_log = Logger()


class Builder:
    """
    Collects handlers and what goes for the whole connection.

    @param unstable: whether handlers may be set for methods that the protocol has not settled yet.
    """

    def __init__(self, *, unstable: bool = False) -> None:
        self._handlers = Handlers()
        self._unstable = unstable
        self._request_timeout = 60.0
        self._limits = Limits()
        self._gates_capabilities = True
        self._gates_paths = True
        self._instrument: IInstrument | None = None
        self._extra: dict[str, object] = {}

    @property
    def takes_unstable(self) -> bool:
        """
        Whether it takes handlers for what the protocol has not settled yet.
        """
        return self._unstable

    def request_timeout(self, seconds: float) -> Self:
        """
        How long each request to the peer may take; 60 seconds unless said otherwise, 0 is without end.  Prompts have a
        timeout of their own.
        """
        self._request_timeout = check_seconds("request_timeout", seconds)
        return self

    def limits(self, limits: Limits) -> Self:
        """
        The bounds of each connection.
        """
        self._limits = check_kind("limits", limits, Limits)
        return self

    def extra_capabilities(self, capabilities: Mapping[str, object]) -> Self:
        """
        Say more in C{initialize} than the protocol knows of: members beside those of the capabilities.  Extensions
        belong into their C{meta} instead (EXT-META-FOR-CUSTOM-CAPABILITIES); this is for parts of other versions.

        @param capabilities: JSON, by name.
        """
        self._extra.update(capabilities)
        return self

    def method_handler(self, method: str, handler: Handler, params: type, *, answered: bool) -> Self:
        """
        Handle a method that the protocol does not have, and that is no extension either: for modules beside it.

        @param params: the class that its params are read into.
        @param answered: whether it is a request.
        """
        return self._on(method, typed(handler, params, "method_handler", answered=answered), "method_handler")

    def capability_gates(self, hold: bool = True) -> Self:
        """
        Whether what the peer advertised counts, as it does unless said otherwise: what it did not advertise raises
        L{AcpCapabilityError<acp_twisted.errors.AcpCapabilityError>} instead of being sent, what it must not be shown is
        left out, and what this side did not advertise is refused.  Without, everything goes out as it is, which is good
        for testing a peer.
        """
        self._gates_capabilities = hold
        return self

    def absolute_paths(self, hold: bool = True) -> Self:
        """
        Whether paths must be absolute, as they must unless said otherwise (1.01): a relative one of the peer's is
        refused with -32602, and one of ours is a L{ValueError}.
        """
        self._gates_paths = hold
        return self

    def instrument(self, instrument: IInstrument) -> Self:
        """
        Have somebody watch what passes, for traces and figures; see
        L{IInstrument<acp_twisted.interfaces.IInstrument>}.
        """
        if not all(callable(getattr(instrument, each, None)) for each in IInstrument):
            raise TypeError(f"instrument: {type(instrument).__name__} has not the methods of IInstrument")
        self._instrument = instrument
        return self

    def cancel_request_handler(self, handler: Handler) -> Self:
        """
        Be told of every C{$/cancel_request}, after it has taken effect, which this does not change.
        """
        return self._on("$/cancel_request", handler, "cancel_request_handler")

    def raw_handler(self, method: str, handler: Handler) -> Self:
        """
        Be given a method's requests and notifications as they came, past all types: for what speaks a protocol of its
        own inside of this one, as L{acp_twisted.mcp} does.

        @param handler: takes an L{IncomingRequest<acp_twisted.jsonrpc.incoming.IncomingRequest>}, whose result it
            returns as JSON, or a L{Notification<acp_twisted.jsonrpc.messages.Notification>}; and the connection.
        """
        self._handlers.add_raw(method, handler, "raw_handler")
        return self

    def ext_request_handler(self, method: str, handler: Handler, params: type | None = None) -> Self:
        """
        Answer an extension's request.  The result is JSON, or an object of an attrs class.

        @param method: its name, which begins with an underscore.
        @param params: an attrs class that the params are read into, and -32602 is the answer where they do not fit;
            L{None} leaves them plain JSON.
        """
        return self._on_extension(method, handler, "ext_request_handler", params)

    def ext_notification_handler(self, method: str, handler: Handler, params: type | None = None) -> Self:
        """
        Be told of an extension's notification.

        @param method: its name, which begins with an underscore.
        @param params: an attrs class that the params are read into; one that they do not fit is logged and ignored.
            L{None} leaves them plain JSON.
        """
        return self._on_extension(method, handler, "ext_notification_handler", params)

    def _on_extension(self, method: str, handler: Handler, setter: str, params: type | None) -> Self:
        if params is not None:
            handler = typed(handler, params, setter, answered=setter == "ext_request_handler")
        self._handlers.add_extension(method, handler, setter)
        return self

    def _on(self, method: str, handler: Handler, setter: str) -> Self:
        self._handlers.add(method, handler, setter)
        return self

    def _on_unstable(self, method: str, handler: Handler, setter: str) -> Self:
        if not self._unstable:
            raise ValueError(f"{setter}: {method} is not settled yet; make the builder with unstable=True to have it")
        return self._on(method, handler, setter)

    def _gates(self, vocabulary: Vocabulary, rules: Rules) -> Gates:
        return Gates(vocabulary, rules, capabilities=self._gates_capabilities, paths=self._gates_paths)


def refuse_broken_promises(
    vocabulary: Vocabulary, side: Side, capabilities: object, handlers: Handlers, setters: Mapping[str, str]
) -> None:
    """
    Hold explicit capabilities to the handlers that are there.  A handler without a capability only gets a warning, for
    its callers may not know of it.

    @param setters: the builder's methods, by the protocol's.
    @raise ValueError: when they promise what nobody handles; it names all of that, and what would handle it.
    """
    missing: list[str] = []
    for each in _gated(vocabulary, side):
        if each.capability is None or _promises(capabilities, each.capability) == (each.name in handlers):
            continue
        if each.name in handlers:
            _log.warn(
                "{method} has a handler, but the capabilities do not say {capability}",
                method=each.name,
                capability=each.capability,
            )
        else:
            missing.append(f"{each.capability} needs {setters.get(each.name, each.name)}")
    if missing:
        raise ValueError(f"the {side}'s capabilities promise what nothing handles: {', '.join(missing)}")


_ONE_OF: Final = {"elicitation": ("elicitation.form", "elicitation.url")}
"""What says nothing by itself, and what it takes."""


def _promises(capabilities: object, capability: str) -> bool:
    if capability in _ONE_OF:
        return any(advertises(capabilities, each) for each in _ONE_OF[capability])
    return advertises(capabilities, capability)


def derive(vocabulary: Vocabulary, side: Side, handlers: Handlers, kind: type[_C]) -> _C:
    """
    The capabilities that follow from handlers: each whose methods all have one.

    @param kind: the class of the capabilities.
    """
    needed: dict[str, list[str]] = {}
    for each in _gated(vocabulary, side):
        if each.capability is not None:
            needed.setdefault(each.capability, []).append(each.name)
    capabilities = kind()
    for capability, names in needed.items():
        missing = [each for each in names if each not in handlers]
        if not missing:
            advertise(vocabulary, capabilities, capability)
        elif len(missing) < len(names):
            _log.warn(
                "{capability} is not advertised, for nothing handles {methods}",
                capability=capability,
                methods=", ".join(missing),
            )
    for each in vocabulary.methods:
        # Who takes a method as it comes speaks the protocol inside of it.
        if each.direction == side and each.capability is not None and handlers.is_raw(each.name):
            advertise(vocabulary, capabilities, each.capability)
    return capabilities


def _gated(vocabulary: Vocabulary, side: Side) -> Iterator[Method]:
    """
    The requests that a side answers if its capabilities say so.
    """
    for method in vocabulary.methods:
        if method.direction == side and method.kind == "request" and method.capability is not None:
            yield method


def advertise(vocabulary: Vocabulary, capabilities: Model, capability: str) -> None:
    """
    Put what a dotted name says into capabilities, and whatever is above it.
    """
    where: Model = capabilities
    for name in capability.split("."):
        attribute = next(each for each, spelled in where.WIRE.items() if spelled[0] == name)
        kind = where.WIRE[attribute][1]
        if kind == "bool":
            setattr(where, attribute, True)
            return
        if getattr(where, attribute) is None:
            setattr(where, attribute, getattr(vocabulary.types, kind)())
        where = getattr(where, attribute)
