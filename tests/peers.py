"""
Where the programs of other people are, for the interoperability tests.

C{tools/install_peers.py} installs them into C{.peers} (or the folder that C{ACP_TWISTED_PEERS} names) and leaves a
stamp in each environment; this module reads the stamps.  A peer that is missing is a failure, never a skip: a test run
that did not meet the real peers has not tested what it says.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent


class PeerMissing(AssertionError):
    """The peer is not installed."""


@frozen
class InstalledPeer:
    """
    One program of somebody else.

    @ivar name: its name in C{tools/install_peers.py}.
    @ivar folder: the environment that it is installed in: a virtual environment, an npm prefix or an unpacked source.
    @ivar argv: how it is started, without arguments.
    """

    name: str
    folder: Path
    argv: tuple[str, ...]

    def command(self, *arguments: str | Path) -> list[str]:
        """
        The command line with these arguments.
        """
        return [*self.argv, *map(str, arguments)]

    def path(self, relative: str) -> Path:
        """
        A file or folder of its environment.

        @raise PeerMissing: when there is none.
        """
        found = self.folder / relative
        if not found.exists():
            raise PeerMissing(f"peer {self.name} has no {relative} in {self.folder}")
        return found

    def package(self, npm_name: str) -> Path:
        """
        The folder of an npm package of its environment.
        """
        return self.path(f"node_modules/{npm_name}")


def peers_folder() -> Path:
    """
    C{ACP_TWISTED_PEERS}, else C{.peers} in the checkout.
    """
    return Path(os.environ.get("ACP_TWISTED_PEERS") or ROOT / ".peers").resolve()


def peer(name: str) -> InstalledPeer:
    """
    Look a program up by the name that C{tools/install_peers.py} gives it: C{acpx}, C{soulacp}, C{chuk-acp},
    C{chuk-acp-python}, C{python-sdk} (a Python with that SDK), C{python-sdk-echo-agent}, C{python-sdk-agent},
    C{python-remote} (the same with what remote agents need), C{ts-remote} (a Node.js beside such an SDK), C{nginx},
    C{haproxy}, C{chromium}, C{acplint}, C{acp-agent}, C{fast-agent}, C{node}, C{ts-agent},
    C{ts-dual-version-agent}, C{ts-client}, C{ts24} (a Node.js, for scripts of our own beside that SDK),
    C{codex-acp}, C{mcp-everything} (an MCP server), C{mcp-python} (a Python with the SDK of MCP), C{rust-peer},
    C{rust-remote}, C{rust-chain} (the Rust conductor, and a proxy) and C{java-peer} (programs of our own on those
    SDKs), C{rust-v2-agent} and C{rust-v2-client} (examples of the Rust SDK).

    @raise PeerMissing: when it is not installed.
    """
    for stamp in sorted(peers_folder().glob("*/peer.json")):
        programs = json.loads(stamp.read_text())["programs"]
        if name in programs:
            return InstalledPeer(name, stamp.parent, tuple(programs[name]))
    raise PeerMissing(
        f"peer {name!r} is not installed in {peers_folder()}: run `python3 tools/install_peers.py --only {name}`"
    )
