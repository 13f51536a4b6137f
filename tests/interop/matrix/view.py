"""
What a client program saw of one step, and how a step says what it wants of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from attrs import frozen

Json: TypeAlias = "dict[str, Any]"
Op: TypeAlias = "Sequence[Any]"


class Wanted(AssertionError):
    """
    A step did not come to what it should.
    """


@frozen
class View:
    """
    The events of one step, in order.
    """

    events: Sequence[Json]

    def of(self, kind: str) -> list[Json]:
        """
        The events of one kind.
        """
        return [each for each in self.events if each["event"] == kind]

    @property
    def results(self) -> list[Any]:
        """
        What was answered, in order.

        @raise Wanted: when something was answered with an error, or not in time.
        """
        for event in self.events:
            if event["event"] in ("error", "timeout", "failed"):
                raise Wanted({key: value for key, value in event.items() if key != "step"})
        return [each["result"] for each in self.of("result")]

    @property
    def result(self) -> Any:
        """
        The last answer.
        """
        results = self.results
        if not results:
            raise Wanted("no answer")
        return results[-1]

    @property
    def updates(self) -> list[Json]:
        """
        The updates of all sessions.
        """
        return [each["update"] for each in self.of("update")]

    def kind(self, name: str) -> Json:
        """
        The one update of a kind.
        """
        found = [each for each in self.updates if each.get("sessionUpdate") == name]
        if len(found) != 1:
            raise Wanted(f"{len(found)} updates of {name}: {self.updates}")
        return found[0]

    def said(self, session: str | None = None) -> str:
        """
        What the agent said, in one session or in all.
        """
        chunks = [
            each["update"]
            for each in self.of("update")
            if each["update"].get("sessionUpdate") == "agent_message_chunk" and session in (None, each.get("sessionId"))
        ]
        return "".join(each["content"].get("text", "") for each in chunks)


Check: TypeAlias = "Callable[[View], None]"


@frozen
class Step:
    """
    One step.

    @ivar ops: what the client does, as C{steps} says.
    @ivar check: raises L{AssertionError} when it did not come to what it should.
    @ivar only: the only agent that is asked for it, because it is no rule of the protocol.
    """

    id: str
    ops: Sequence[Op]
    check: Check
    only: str | None = None


def wants(condition: object, *why: object) -> None:
    """
    @raise Wanted: unless C{condition} holds.
    """
    if not condition:
        raise Wanted(" ".join(map(str, why)))


def same(got: object, expected: object) -> None:
    """
    @raise Wanted: unless both are equal.
    """
    wants(got == expected, f"got {got!r:.300}, wanted {expected!r:.300}")


def has(got: Any, expected: Json) -> None:
    """
    @raise Wanted: unless every member of C{expected} is in C{got}, all the way down.
    """
    for name, value in expected.items():
        wants(isinstance(got, dict) and name in got, f"no {name} in {got!r:.300}")
        if isinstance(value, dict):
            has(got[name], value)
        else:
            same(got[name], value)
