"""The look-up of installed peers fails loudly, so that no interoperability test can pass without its peer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from peers import PeerMissing, peer


def test_a_missing_peer_is_a_failure_that_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may mistake an absent peer for a passed test."""
    monkeypatch.setenv("ACP_TWISTED_PEERS", str(tmp_path))
    with pytest.raises(PeerMissing, match=r"tools/install_peers\.py --only acpx"):
        peer("acpx")


def test_an_installed_peer_gives_its_command_and_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stamp tells how the program starts; files of its environment are found, others are refused."""
    monkeypatch.setenv("ACP_TWISTED_PEERS", str(tmp_path))
    package = tmp_path / "env" / "node_modules" / "@x" / "y"
    package.mkdir(parents=True)
    (tmp_path / "env" / "peer.json").write_text(json.dumps({"programs": {"thing": ["node", "thing.js"]}}))
    assert peer("thing").command("--flag", tmp_path) == ["node", "thing.js", "--flag", str(tmp_path)]
    assert peer("thing").package("@x/y") == package
    with pytest.raises(PeerMissing, match=r"no missing\.txt in"):
        peer("thing").path("missing.txt")
