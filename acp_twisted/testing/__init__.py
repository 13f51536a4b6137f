"""
What people test their own agents and clients with, under pytest, trial or unittest.

Nothing here needs a reactor: conversations are in memory, deliver at once, and take their time from a
L{Clock<twisted.internet.task.Clock>}.

  - L{connected_pair<acp_twisted.testing.pair.connected_pair>}: an agent and a client that talk to each other, in the
    version of the protocol that they agree on;
  - L{ScriptedAgent<acp_twisted.testing.agent.ScriptedAgent>} and
    L{ScriptedClient<acp_twisted.testing.client.ScriptedClient>}: halves that expect, and do what the test says;
  - L{AgentOnWire<acp_twisted.testing.on_wire.AgentOnWire>} and
    L{ClientOnWire<acp_twisted.testing.on_wire.ClientOnWire>}: one half, and plain JSON on its other end;
  - L{RecordingTransport<acp_twisted.testing.recording.RecordingTransport>} and
    L{Transcript<acp_twisted.testing.transcript.Transcript>}: what was said, and what may be said of it;
  - L{success_result<acp_twisted.testing.results.success_result>} and its like: what a Deferred has come to;
  - L{acp_twisted.testing.strategies}: hypothesis strategies for every type of the protocol;
  - L{acp_twisted.testing.scripted_agent}: a program that does what each prompt tells it to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp_twisted.testing.agent import ANYTHING, PromptExpectation, ScriptedAgent
    from acp_twisted.testing.client import PermissionExpectation, ScriptedClient
    from acp_twisted.testing.on_wire import AgentOnWire, ClientOnWire, HalfOnWire, WireEnd
    from acp_twisted.testing.pair import AnyPair, ConnectedPair, ConnectedPairV2, connected_pair
    from acp_twisted.testing.recording import RecordingFactory, RecordingReceiver, RecordingTransport
    from acp_twisted.testing.results import failure_of, no_result, success_result
    from acp_twisted.testing.script import Expectation
    from acp_twisted.testing.transcript import (
        Entry,
        Pattern,
        Transcript,
        answered,
        became,
        notified,
        refused,
        requested,
        updated,
    )

# The scripted agent is a program that should start fast: nothing of the rest is loaded for it.
_WHERE = {
    "agent": ("ANYTHING", "PromptExpectation", "ScriptedAgent"),
    "client": ("PermissionExpectation", "ScriptedClient"),
    "on_wire": ("AgentOnWire", "ClientOnWire", "HalfOnWire", "WireEnd"),
    "pair": ("AnyPair", "ConnectedPair", "ConnectedPairV2", "connected_pair"),
    "recording": ("RecordingFactory", "RecordingReceiver", "RecordingTransport"),
    "results": ("failure_of", "no_result", "success_result"),
    "script": ("Expectation",),
    "transcript": (
        "Entry",
        "Pattern",
        "Transcript",
        "answered",
        "became",
        "notified",
        "refused",
        "requested",
        "updated",
    ),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "ANYTHING",
    "AgentOnWire",
    "AnyPair",
    "ClientOnWire",
    "ConnectedPair",
    "ConnectedPairV2",
    "Entry",
    "Expectation",
    "HalfOnWire",
    "Pattern",
    "PermissionExpectation",
    "PromptExpectation",
    "RecordingFactory",
    "RecordingReceiver",
    "RecordingTransport",
    "ScriptedAgent",
    "ScriptedClient",
    "Transcript",
    "WireEnd",
    "answered",
    "became",
    "connected_pair",
    "failure_of",
    "no_result",
    "notified",
    "refused",
    "requested",
    "success_result",
    "updated",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib  # noqa: PLC0415

        value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value
