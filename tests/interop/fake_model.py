"""
A model server on loopback, so that an agent that wants a model reaches its turn without one.

It speaks as much of OpenAI's "responses" as C{codex-acp} needs: it answers with a stream of events that says the last
thing that the user said, or, when that has the word C{SLOW} in it, a word every 20 ms until the agent hangs up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from twisted.internet.interfaces import IListeningPort
from twisted.internet.task import LoopingCall
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

Json = dict[str, Any]
SLOW = "SLOW"


def said(content: object) -> str:
    """
    The text of a message's content, which is a string or a list of parts.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def last_words(request: Json) -> str:
    """
    The last thing that the user said.
    """
    words = [said(each.get("content")) for each in request.get("input", ()) if each.get("role") == "user"]
    return words[-1] if words else ""


def event(kind: str, **members: object) -> bytes:
    """
    One server-sent event.
    """
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


class Answer:
    """
    One streamed answer.
    """

    def __init__(self, number: int) -> None:
        self.response_id = f"response-{number}"
        self.item_id = f"message-{number}"
        self.text = ""

    def opening(self) -> bytes:
        """
        The response and its one message begin.
        """
        response = {"id": self.response_id, "object": "response", "status": "in_progress", "output": []}
        created = event("response.created", response=response)
        return created + event("response.output_item.added", output_index=0, item=self._item("in_progress"))

    def word(self, text: str) -> bytes:
        """
        A piece of the message.
        """
        self.text += text
        return event("response.output_text.delta", item_id=self.item_id, output_index=0, content_index=0, delta=text)

    def closing(self) -> bytes:
        """
        The message and the response are complete.
        """
        usage = {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        }
        item = self._item("completed")
        response = {
            "id": self.response_id,
            "object": "response",
            "status": "completed",
            "output": [item],
            "usage": usage,
        }
        done = event("response.output_item.done", output_index=0, item=item)
        return done + event("response.completed", response=response)

    def _item(self, status: str) -> Json:
        content = [{"type": "output_text", "text": self.text, "annotations": []}] if self.text else []
        return {"id": self.item_id, "type": "message", "role": "assistant", "status": status, "content": content}


class FakeModel(Resource):
    """
    The server's one resource.

    @ivar asked: what users said, in order.
    @ivar hung_up: how many slow answers the agent broke off.
    """

    isLeaf = True  # noqa: N815 - Twisted looks for this name

    def __init__(self, reactor: Any) -> None:
        untyped: Any = super().__init__
        untyped()
        self._reactor = reactor
        self.asked: list[str] = []
        self.hung_up = 0

    def listen(self) -> IListeningPort:
        """
        Serve on a free port of loopback.
        """
        port: IListeningPort = self._reactor.listenTCP(0, Site(self, timeout=None), interface="127.0.0.1")
        return port

    def render_GET(self, request: Request) -> bytes:
        request.setHeader(b"content-type", b"application/json")
        return json.dumps({"object": "list", "data": [{"id": "fake", "object": "model"}]}).encode()

    def render_POST(self, request: Request) -> bytes | int:
        assert request.content is not None
        words = last_words(json.load(request.content))
        self.asked.append(words)
        request.setHeader(b"content-type", b"text/event-stream")
        answer = Answer(len(self.asked))
        request.write(answer.opening())
        if SLOW in words:
            self._slowly(request, answer)
            return NOT_DONE_YET
        for word in words.split():
            request.write(answer.word(word + " "))
        return answer.closing()

    def _slowly(self, request: Request, answer: Answer) -> None:
        numbers: Iterator[int] = iter(range(10_000))
        loop = LoopingCall(lambda: request.write(answer.word(f"w{next(numbers)} ")))
        loop.clock = self._reactor

        def hung_up(failure: object) -> None:
            self.hung_up += 1
            loop.stop()

        request.notifyFinish().addErrback(hung_up)
        loop.start(0.02)
