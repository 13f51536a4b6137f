"""
The client's way to stop a prompt turn and still get the agent's answer.
"""

from __future__ import annotations

from acp_twisted.jsonrpc.signal import CancellationSignal

__all__ = ["CancellationSignal"]
