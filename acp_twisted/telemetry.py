"""
Spans for OpenTelemetry.  Needs C{opentelemetry-api}, and is imported by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError
from zope.interface import implementer

from acp_twisted._version import __version__
from acp_twisted.errors import AcpError
from acp_twisted.interfaces import IInstrument, ISpan
from acp_twisted.tracing import params_with, trace_context

try:
    from opentelemetry import context as otel_context
    from opentelemetry.context import Context
    from opentelemetry.propagate import extract, inject
    from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, get_tracer, set_span_in_context
except ImportError as error:
    raise ImportError(f"spans need opentelemetry-api: pip install 'acp_twisted[telemetry]' ({error})") from error


@implementer(ISpan)
class _OpenSpan:
    """One message's span."""

    def __init__(self, span: Span, context: Context, params: object) -> None:
        self._span = span
        self._context = context
        self.params = params

    def run(self, function: Callable[[], None]) -> None:
        """
        See L{ISpan}.
        """
        token = otel_context.attach(self._context)
        try:
            function()
        finally:
            otel_context.detach(token)

    def end(self, error: BaseException | None) -> None:
        """
        See L{ISpan}.  Of an error only the class and the code are told: its text may hold secrets (design rule 9).
        """
        if isinstance(error, AcpError):
            self._span.set_attribute("rpc.jsonrpc.error_code", error.code)
        if error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            if not isinstance(error, CancelledError):
                self._span.set_status(StatusCode.ERROR)
        self._span.end()


@implementer(IInstrument)
class OpenTelemetry:
    """
    A span for each request that is sent or received, with the trace context in C{_meta} both ways; give it to the
    builder's C{instrument}.  Names follow the conventions for JSON-RPC.  No params and no results are recorded.

    @param tracer: L{None} is the one of the global provider.
    @param notifications: whether notifications have spans too, of which there may be thousands in a turn.
    """

    def __init__(self, tracer: Tracer | None = None, *, notifications: bool = False) -> None:
        self._tracer = get_tracer("acp_twisted", __version__) if tracer is None else tracer
        self._notifications = notifications

    def sending(self, method: str, params: object, is_request: bool) -> _OpenSpan | None:
        """
        See L{IInstrument}.
        """
        if not (is_request or self._notifications):
            return None
        span = self._begin(method, params, SpanKind.CLIENT if is_request else SpanKind.PRODUCER, None)
        context = set_span_in_context(span)
        carrier: dict[str, str] = {}
        inject(carrier, context)
        return _OpenSpan(span, context, params_with(params, carrier))

    def received(self, method: str, params: object, is_request: bool) -> _OpenSpan | None:
        """
        See L{IInstrument}.
        """
        if not (is_request or self._notifications):
            return None
        parent = extract(trace_context(params))
        span = self._begin(method, params, SpanKind.SERVER if is_request else SpanKind.CONSUMER, parent)
        return _OpenSpan(span, set_span_in_context(span, parent), params)

    def _begin(self, method: str, params: object, kind: SpanKind, parent: Context | None) -> Span:
        attributes: dict[str, Any] = {"rpc.system": "jsonrpc", "rpc.method": method, "rpc.jsonrpc.version": "2.0"}
        session = params.get("sessionId") if isinstance(params, Mapping) else None
        if isinstance(session, str):
            attributes["acp.session_id"] = session
        return self._tracer.start_span(method, context=parent, kind=kind, attributes=attributes)
