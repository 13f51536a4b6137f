"""
One C{session/update} of each kind, as it comes on the wire.
"""

from __future__ import annotations

import json
from typing import Any

TEXT = {"type": "text", "text": "The quick brown fox jumps over the lazy dog, and it does so in one line."}

KINDS: dict[str, dict[str, Any]] = {
    "user_message_chunk": {"content": TEXT},
    "agent_message_chunk": {"content": TEXT},
    "agent_thought_chunk": {"content": TEXT},
    "tool_call": {
        "toolCallId": "call_001",
        "title": "Look into a file",
        "kind": "read",
        "status": "pending",
        "locations": [{"path": "/home/user/project/main.py", "line": 42}],
        "rawInput": {"path": "/home/user/project/main.py"},
    },
    "tool_call_update": {
        "toolCallId": "call_001",
        "status": "completed",
        "content": [{"type": "content", "content": TEXT}],
        "rawOutput": {"lines": 12},
    },
    "plan": {"entries": [{"content": "Look first", "priority": "high", "status": "in_progress"}]},
    "available_commands_update": {
        "availableCommands": [{"name": "web", "description": "Search", "input": {"hint": "what for"}}]
    },
    "current_mode_update": {"currentModeId": "code"},
    "config_option_update": {
        "configOptions": [
            {
                "id": "model",
                "name": "Model",
                "type": "select",
                "currentValue": "small",
                "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
            }
        ]
    },
    "session_info_update": {"title": "A look into a file", "updatedAt": "2026-11-30T12:00:00Z"},
    "usage_update": {"used": 53_000, "size": 200_000, "cost": {"amount": 0.045, "currency": "USD"}},
}


def lines() -> dict[str, str]:
    """
    Each kind's notification as one line of JSON.
    """
    return {
        kind: json.dumps(
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {"sessionId": "session-1", "update": {"sessionUpdate": kind, **members}},
            },
            separators=(",", ":"),
        )
        for kind, members in KINDS.items()
    }
