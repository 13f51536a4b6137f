"""
Whoever watches a connection: what he is told, what he may add, and that he can do no harm.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from conftest import LoggedErrors
from halves import AgentHalf, ClientHalf, Raw, prompt
from halves_v2 import ClientHalf as SecondClientHalf
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from wire import Wire, failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from acp_twisted import AcpAgent, AcpClient, AcpConnectionError, PromptContext, RequestCancelled
from acp_twisted.agent.agent import AcpAgentBuilder
from acp_twisted.interfaces import IInstrument, ISpan
from acp_twisted.schema import v1
from acp_twisted.telemetry import OpenTelemetry
from acp_twisted.tracing import PassTraceContext, trace_context, with_trace_context
from acp_twisted.transports.memory import MemoryLink

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@implementer(ISpan)
class Noted:
    """A span that says what happens to it."""

    def __init__(self, notes: list[str], name: str, params: object) -> None:
        self._notes = notes
        self._name = name
        self.params = params

    def run(self, function: Callable[[], None]) -> None:
        self._notes.append(f"> {self._name}")
        function()
        self._notes.append(f"< {self._name}")

    def end(self, error: BaseException | None) -> None:
        self._notes.append(f"{self._name}: {type(error).__name__ if error else 'done'}")


@implementer(IInstrument)
class Notes:
    """An instrument that only writes down."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def sending(self, method: str, params: object, is_request: bool) -> Noted | None:
        return Noted(self.notes, f"sent {method}", params)

    def received(self, method: str, params: object, is_request: bool) -> Noted | None:
        return Noted(self.notes, f"got {method}", params)

    def take(self) -> list[str]:
        taken, self.notes[:] = list(self.notes), []
        return taken


def agent(handler: Callable[..., Any]) -> AcpAgentBuilder:
    """An agent whose session is C{s1}."""
    builder = AcpAgent.builder().prompt_handler(handler)
    return builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))


# ---- what an instrument is told


def test_an_agents_messages() -> None:
    """Each request from its arrival to its answer, each request and notification of the agent's, once."""
    notes = Notes()
    answers: list[Deferred[Any]] = []

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        await context.read_file("/f")
        await context.send_message("hi")
        return v1.PromptResponse(stop_reason="end_turn")

    builder = agent(handler).instrument(notes)

    def later(params: object) -> Deferred[Any]:
        answers.append(Deferred())
        return answers[-1]

    builder.ext_notification_handler("_later", later)
    half = AgentHalf(builder.build())
    notes.take()
    half.send({"id": 5, "method": "session/prompt", "params": prompt()["params"]})
    read = "sent fs/read_text_file"
    assert notes.take() == ["> got session/prompt", "< got session/prompt"]
    half.send({"id": half.take()[0]["id"], "result": {"content": "x"}})
    assert notes.take() == [f"{read}: done", "sent session/update: done", "got session/prompt: done"]
    half.send({"method": "_later"}, {"method": "_unknown"})
    assert notes.take() == [
        "> got _later",
        "< got _later",
    ]
    answers[0].callback(None)
    assert notes.take() == ["got _later: done", "> got _unknown", "< got _unknown", "got _unknown: done"]


def test_how_requests_end(logged_errors: LoggedErrors) -> None:
    """With an error, a cancellation or the end of the link, they end once (design rule 1)."""
    notes = Notes()
    builder = agent(lambda request: Deferred()).instrument(notes)
    builder.ext_request_handler("_bad", lambda params: 1 // 0)
    half = AgentHalf(builder.build())
    notes.take()
    half.send({"id": 1, "method": "_bad"}, {"id": 2, "method": "_unknown"})
    logged_errors.clear()
    assert notes.take() == [
        *("> got _bad", "got _bad: InternalError", "< got _bad"),
        *("> got _unknown", "got _unknown: MethodNotFound", "< got _unknown"),
    ]
    half.prompt()
    half.cancel_request()
    assert "got session/prompt: RequestCancelled" in notes.take()
    half.prompt(6)
    asked = half.connection.call(v1.ReadTextFileRequest(session_id="s1", path="/f"))
    asked.cancel()
    failure(asked, RequestCancelled)
    asked = half.connection.call(v1.ReadTextFileRequest(session_id="s1", path="/f"))
    notes.take()
    half.lose()
    failure(asked, AcpConnectionError)
    assert sorted(notes.take()) == [
        "got session/prompt: AcpConnectionError",
        "sent fs/read_text_file: AcpConnectionError",
    ]


def test_requests_that_end_with_each_other() -> None:
    """A request whose answer comes from the end of another, as the link goes, ends once (design rule 1)."""
    notes = Notes()
    second: Deferred[int] = Deferred()
    builder = agent(lambda request: None).instrument(notes)
    builder.ext_request_handler("_first", lambda params: Deferred(lambda _: second.callback(1)))
    builder.ext_request_handler("_second", lambda params: second)
    half = AgentHalf(builder.build())
    half.send({"id": 1, "method": "_first"}, {"id": 2, "method": "_second"})
    notes.take()
    half.lose()
    assert notes.take() == ["got _first: AcpConnectionError", "got _second: AcpConnectionError"]


def test_an_instrument_that_ends_the_link() -> None:
    """A request whose end has the connection cut ends once, though its answer is not out yet (design rule 1)."""
    wire, notes = Wire(), Notes()
    wire.peer.instrument = notes
    wire.router.requests["m"] = lambda _: 1

    def received(method: str, params: object, is_request: bool) -> Noted:
        span = Noted(notes.notes, method, params)
        end = span.end

        def ending(error: BaseException | None) -> None:
            end(error)
            wire.lose()

        span.end = ending  # type: ignore[method-assign]
        return span

    notes.received = received  # type: ignore[method-assign]
    wire.request(1, "m")
    assert notes.take() == ["> m", "m: done", "< m"]
    assert wire.peer.incoming_requests == 0


def test_an_instrument_that_fails_does_no_harm(logged_errors: LoggedErrors) -> None:
    """What it raises is logged; the message goes its way, once (design rule 7)."""

    class Broken:
        """Fails at one place."""

        def __init__(self, where: str) -> None:
            self.where = where
            self.params: object = None

        def sending(self, method: str, params: object, is_request: bool) -> Any:
            self.params = params
            return self._at("sending")

        def received(self, method: str, params: object, is_request: bool) -> Any:
            return self._at("received")

        def run(self, function: Callable[[], None]) -> None:
            self._at("run")
            function()
            self._at("ran")

        def end(self, error: BaseException | None) -> None:
            self._at("end")

        def _at(self, where: str) -> Any:
            if where == self.where:
                raise ValueError(where)
            return self

    for where in ("sending", "received", "run", "ran", "end"):
        called: list[str] = []
        builder = agent(lambda request: Deferred()).instrument(Broken(where))  # type: ignore[arg-type]

        def handle(params: object, _: object, called: list[str] = called) -> str:
            called.append("x")
            return "y"

        builder.ext_request_handler("_x", handle)
        half = AgentHalf(builder.build())
        half.send({"id": 1, "method": "_x"})
        assert half.answers(1) == [{"result": "y"}]
        assert called == ["x"]
        half.take()
        half.connection.ext_notification("_n", {"a": 1})
        assert half.take() == [{"method": "_n", "params": {"a": 1}}]
        assert logged_errors
        logged_errors.clear()


def test_a_watched_client() -> None:
    """The client's side is watched by the same interface; its calls end with what they come to."""
    notes = Notes()
    half = ClientHalf(AcpClient.builder().instrument(notes).session_update_handler(print).build())
    assert notes.take() == ["sent initialize: done", "sent session/new: done"]
    half.update("hi")
    assert notes.take() == ["> got session/update", "< got session/update", "got session/update: done"]
    for instrument in (notes, PassTraceContext(), OpenTelemetry()):
        verifyObject(IInstrument, instrument)


# ---- trace context


def test_the_keys_of_a_trace() -> None:
    """Three keys at the root of _meta are the trace's, and only strings (EXT-META-TRACE-KEYS-RESERVED, 6.3)."""
    meta = {"traceparent": PARENT, "tracestate": "a=b", "baggage": 7, "zed.dev/x": 1}
    carried = {"traceparent": PARENT, "tracestate": "a=b"}
    assert trace_context(meta) == carried
    assert trace_context({"sessionId": "s", "_meta": meta}) == carried
    assert trace_context(v1.PromptRequest(session_id="s", prompt=[], meta=meta)) == carried
    bare: list[Any] = [None, {}, {"_meta": None}, [], "x", v1.LogoutRequest(), {"_meta": "x"}]
    for nothing in bare:
        assert trace_context(nothing) == {}
    own = {"traceparent": "own", "x": 1}
    assert with_trace_context(own, carried) == {"traceparent": "own", "tracestate": "a=b", "x": 1}
    assert with_trace_context(None, {"other": "x"}) == {}


def test_a_trace_is_passed_on() -> None:
    """What a handler sends carries the trace of what it was called for, across an await; nothing else does (6.3)."""

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        await context.read_file("/f")
        context.send_message("hi")
        context.ext_request("_own", {"_meta": {"traceparent": "own"}})
        context.ext_request("_list", [1])
        return v1.PromptResponse(stop_reason="end_turn")

    half = AgentHalf(agent(handler).instrument(PassTraceContext()).build())
    params = prompt()["params"] | {"_meta": {"traceparent": PARENT, "zed.dev/x": 1}}
    half.send({"id": 5, "method": "session/prompt", "params": params})
    [read] = half.take()
    assert read["params"]["_meta"] == {"traceparent": PARENT}
    half.send({"id": read["id"], "result": {"content": ""}})
    update, own, plain, _ = half.take()
    assert update["params"]["_meta"] == {"traceparent": PARENT}
    assert own["params"]["_meta"] == {"traceparent": "own"}
    assert plain["params"] == [1]
    half.connection.ext_notification("_outside", {})
    assert half.take()[0]["params"] == {}


@pytest.fixture
def spans() -> tuple[OpenTelemetry, InMemorySpanExporter]:
    """An instrument whose spans are kept."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OpenTelemetry(provider.get_tracer("test")), exporter


def test_spans_of_opentelemetry(spans: tuple[OpenTelemetry, InMemorySpanExporter]) -> None:
    """A request's span is the child of the peer's, and the parent of what its handler asks (6.3)."""
    instrument, exporter = spans

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        await context.read_file("/secret")
        context.send_message("hi")
        return v1.PromptResponse(stop_reason="end_turn")

    half = AgentHalf(agent(handler).instrument(instrument).build())
    exporter.clear()
    params = prompt()["params"] | {"_meta": {"traceparent": PARENT}}
    half.send({"id": 5, "method": "session/prompt", "params": params})
    [read] = half.take()
    half.send({"id": read["id"], "error": {"code": -32002, "message": "secret"}})
    half.take()
    asked, turn = exporter.get_finished_spans()
    assert [asked.name, turn.name] == ["fs/read_text_file", "session/prompt"]
    assert turn.context is not None
    assert turn.parent is not None
    assert f"{turn.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{turn.parent.span_id:016x}" == PARENT.split("-")[2]
    assert asked.parent is not None
    assert asked.parent.span_id == turn.context.span_id
    assert read["params"]["_meta"]["traceparent"].split("-")[2] == f"{_context(asked).span_id:016x}"
    assert asked.attributes is not None
    assert asked.attributes["rpc.jsonrpc.error_code"] == -32002
    assert asked.attributes["acp.session_id"] == "s1"
    assert "secret" not in asked.to_json()
    assert (asked.kind, turn.kind) == (trace.SpanKind.CLIENT, trace.SpanKind.SERVER)


def _context(span: ReadableSpan) -> trace.SpanContext:
    context: trace.SpanContext | None = span.get_span_context()
    assert context is not None
    return context


def test_notifications_have_spans_when_they_are_wanted() -> None:
    """They may be thousands in a turn, so they have none unless it is said."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument = OpenTelemetry(provider.get_tracer("test"), notifications=True)
    half = ClientHalf(AcpClient.builder().instrument(instrument).build())
    exporter.clear()
    half.update("hi")
    half.connection.ext_notification("_x")
    received, sent = exporter.get_finished_spans()
    assert (received.name, received.kind) == ("session/update", trace.SpanKind.CONSUMER)
    assert (sent.name, sent.kind) == ("_x", trace.SpanKind.PRODUCER)
    assert half.take()[-1]["params"]["_meta"]["traceparent"]


def test_version_2_is_watched_too() -> None:
    """The instrument that the builder was given watches whichever version is spoken, on both sides (6.3)."""
    notes = Notes()
    versioned = AcpClient.builder().instrument(notes).protocol_versions(2)
    half = SecondClientHalf(versioned.build())
    assert "sent session/new: done" in notes.take()
    half.connection.ext_notification("_x")
    assert notes.take() == ["sent _x: done"]
    served = agent(lambda request: Deferred()).instrument(notes).protocol_versions(1, 2).build()
    link = MemoryLink(Raw(), served.build_receiver(Clock()), Clock())
    info = {"name": "raw", "version": "1"}
    for number, (method, params) in enumerate(
        [("initialize", {"protocolVersion": 2, "info": info}), ("session/new", {"cwd": "/w"})]
    ):
        link.a.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
        link.deliver_all()
    assert "got session/new: done" in notes.take()
