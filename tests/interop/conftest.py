"""
What the interoperability tests start with.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred

from interop.editor import Editor
from interop.fake_model import FakeModel
from interop.programs import Programs


def pytest_configure(config: pytest.Config) -> None:
    """
    The marker of what takes its time.
    """
    config.addinivalue_line("markers", "slow: takes more than five seconds even on an idle machine")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Everything in this folder is an interoperability test.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture
def real_reactor() -> Any:
    """
    The reactor that the tests run in.
    """
    from twisted.internet import reactor

    return reactor


@pytest.fixture
def programs(real_reactor: Any) -> Iterator[Programs]:
    """
    Starts programs; what is left of them is killed with its children.
    """
    programs = Programs(real_reactor)
    yield programs
    pytest_twisted.blockon(programs.stop_all())


@pytest.fixture
def editor(real_reactor: Any) -> Iterator[Editor]:
    """
    Our client with an editor behind it; its agents are ended.
    """
    editor = Editor(real_reactor)
    yield editor
    pytest_twisted.blockon(Deferred.fromCoroutine(editor.close()))


@pytest.fixture
def fake_model(real_reactor: Any) -> Iterator[tuple[FakeModel, str]]:
    """
    A model server, and the address of its API.
    """
    model = FakeModel(real_reactor)
    port = model.listen()
    address: Any = port.getHost()
    yield model, f"http://127.0.0.1:{address.port}/v1"
    pytest_twisted.blockon(port.stopListening())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """
    A folder for a session, with a file in it.
    """
    (tmp_path / "notes.txt").write_text("first line\nsecond line\n")
    return tmp_path
