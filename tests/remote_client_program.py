"""
A client that is killed by a test: some connections to a remote agent, each with a turn that goes on for ever.

    python remote_client_program.py CONNECTIONS URL [CA_FILE]

Prints a line once every turn has brought something.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from acp_twisted import AcpClient
from acp_twisted.transports.http.url import AgentUrl, TlsOptions


async def main(reactor: Any) -> None:
    """
    Stream until killed.
    """
    count, url, *rest = sys.argv[1:]
    where = AgentUrl(url=url, tls=TlsOptions(trust_roots=rest[0] if rest else None))
    for _ in range(int(count)):
        connection = await AcpClient.builder().build().connect(reactor, where)
        await connection.initialize()
        session = await connection.new_session(cwd="/")
        async for _update in session.prompt("slow").updates():
            break
    sys.stdout.write("streaming\n")
    sys.stdout.flush()
    await Deferred()


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
