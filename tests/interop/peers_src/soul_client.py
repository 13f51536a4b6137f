# mypy: ignore-errors
"""
A client on soulacp, which checks every message of an agent strictly, that follows a plan and prints events.

The plan is JSON: C{{"agent": [argv], "cwd": DIR, "permit": "allow" | "deny", "steps": [STEP]}}; a step is
C{{"prompt": TEXT}}, with C{"cancel": true} when it is to be cancelled after its first update.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys

from soulacp.adapters.fastagent_client import FastAgentACPClient
from soulacp.config import ACPConfig


def report(event: str, **members) -> None:
    sys.stdout.write(json.dumps({"event": event, **members}) + "\n")
    sys.stdout.flush()


class Client(FastAgentACPClient):
    """Starts the agent of the plan in place of the one that it was written for."""

    command: list[str] = []

    def _get_acp_command(self) -> list[str]:
        return self.command


async def main(plan) -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    Client.command = plan["agent"]
    config = ACPConfig(
        cwd=plan["cwd"],
        timeout_connect=180,
        timeout_prompt=180,
        timeout_stream=180,
        auto_approve_permissions=plan["permit"] == "allow",
    )
    client = Client(config)
    updated = asyncio.Event()

    def on_update(message) -> None:
        report("update", update=message)
        updated.set()

    try:
        await client.connect()
        client.set_update_callback(on_update)
        report("session", sessionId=client.session_id)
        for step in plan["steps"]:
            updated.clear()
            turn = asyncio.ensure_future(client.query(step["prompt"]))
            if step.get("cancel"):
                await updated.wait()
                await client.cancel()
            try:
                report("result", text=await turn)
            except Exception as error:
                report("error", kind=type(error).__name__, message=str(error))
    except Exception as error:
        report("error", kind=type(error).__name__, message=str(error))
    finally:
        await client.disconnect()
    report("exited")


asyncio.run(main(json.loads(sys.argv[1])))
