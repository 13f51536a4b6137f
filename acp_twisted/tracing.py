"""
The trace of a request across the peers that work on it: the keys of C{_meta} that the protocol keeps for W3C trace
context (EXT-META-TRACE-KEYS-RESERVED), and instruments that pass them on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from attrs import field, frozen
from zope.interface import implementer

from acp_twisted.interfaces import IInstrument, ISpan
from acp_twisted.schema.values import Model

TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")
"""The keys at the root of C{_meta} that nothing else may use."""


def trace_context(source: object) -> dict[str, str]:
    """
    The trace context that something carries: those of the keys that are there.

    @param source: an object of the schema, such as a request; its JSON; or a C{_meta} by itself.
    """
    if isinstance(source, Model):
        meta: Any = getattr(source, "meta", None)
    elif isinstance(source, Mapping):
        meta = source.get("_meta", source)
    else:
        meta = None
    if not isinstance(meta, Mapping):
        return {}
    return {key: meta[key] for key in TRACE_KEYS if isinstance(meta.get(key), str)}


def with_trace_context(meta: Mapping[str, Any] | None, context: Mapping[str, str]) -> dict[str, Any]:
    """
    A C{_meta} that carries a trace context, with all else that was in it.  What is there already stays.

    @param context: what L{trace_context} gave, say; other keys than the three are left out.
    """
    return {**{key: context[key] for key in TRACE_KEYS if key in context}, **(meta or {})}


def params_with(params: object, context: Mapping[str, str]) -> object:
    """
    JSON params that carry a trace context; as they are, if they are no object.
    """
    if not context or not (params is None or isinstance(params, dict)):
        return params
    given = params or {}
    meta = given.get("_meta")
    if meta is not None and not isinstance(meta, dict):
        return params
    return {**given, "_meta": with_trace_context(meta, context)}


_received: ContextVar[Mapping[str, str] | None] = ContextVar("received trace context", default=None)


@implementer(ISpan)
@frozen
class _Passed:
    """One message that the trace context is passed to or taken from."""

    params: object
    _context: Mapping[str, str] = field(factory=dict)

    def run(self, function: Callable[[], None]) -> None:
        """
        See L{ISpan}.
        """
        before = _received.set(self._context)
        try:
            function()
        finally:
            _received.reset(before)

    def end(self, error: BaseException | None) -> None:
        """
        See L{ISpan}.
        """


@implementer(IInstrument)
class PassTraceContext:
    """
    Gives what a handler sends the trace context of what the handler was called for: for who traces nothing himself, but
    does not want to break the trace of those on both sides.  What carries a context already keeps its own.
    """

    def sending(self, method: str, params: object, is_request: bool) -> _Passed | None:
        """
        See L{IInstrument}.
        """
        context = _received.get()
        return _Passed(params_with(params, context)) if context else None

    def received(self, method: str, params: object, is_request: bool) -> _Passed:
        """
        See L{IInstrument}.
        """
        return _Passed(params, trace_context(params))
