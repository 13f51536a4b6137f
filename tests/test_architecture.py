"""
The arrows of the design, held by reading every import of the package.

A room may import the rooms that its row of L{MAY_IMPORT} names, and itself.  C{testing} may import anything, and
nothing imports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "acp_twisted"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 600
PROGRAMS = {"cli", "testing"}
FOR_PROGRAMS = {"client/reactor_thread.py"}
BLOCKING = {"testing/_directives.py"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
GENERATED = {"schema/v1.py", "schema/v1_unstable.py", "schema/v2.py", "schema/v2_unstable.py", "schema/nes.py"}

BASE = {"limits", "errors", "interfaces"}
JSONRPC = BASE | {"jsonrpc"}
SCHEMA = JSONRPC | {"schema"}
HALVES = SCHEMA | {
    "turn",
    "transports",
    "handlers",
    "connection",
    "gates",
    "gates_v2",
    "builder",
    "elicitations",
    "extensions",
    "negotiation",
}
SERVICES = HALVES | {"agent", "client", "proxy", "mcp"}
TOP = SERVICES | {"service", "_version"}

MAY_IMPORT: dict[str, set[str]] = {
    "_version": set(),
    "limits": set(),
    "errors": set(),
    "interfaces": {"errors", "limits"},
    "jsonrpc": BASE,
    "schema": JSONRPC,
    "turn": SCHEMA,
    "transports": SCHEMA,
    "handlers": SCHEMA,
    "gates": SCHEMA,
    "extensions": SCHEMA | {"handlers"},
    "gates_v2": SCHEMA | {"gates"},
    "elicitations": SCHEMA,
    "negotiation": BASE,
    "connection": SCHEMA | {"handlers", "gates", "extensions"},
    "builder": SCHEMA | {"handlers", "gates", "extensions"},
    "tracing": SCHEMA,
    "telemetry": SCHEMA | {"tracing", "_version"},
    "agent": HALVES | {"_version"},
    "client": HALVES | {"_version"},
    "proxy": HALVES | {"agent", "client"},
    "mcp": HALVES | {"agent", "client"},
    "nes": SERVICES,
    "service": SERVICES,
    "tap": TOP,
    "cli": TOP,
    "__init__": TOP,
}


def name_of(path: Path) -> str:
    """The module's path inside the package."""
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    """The room that a module is in: its folder, or itself at the top."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def parse(path: Path) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(tree: ast.Module, path: Path) -> Iterator[tuple[int, str]]:
    """
    Every import anywhere in a module, also inside functions: its line, and the full dotted name of what is imported.
    """
    package = ["acp_twisted", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def faults_of(path: Path, tree: ast.Module) -> list[str]:
    """Each import that points where the room may not point."""
    room = room_of(path)
    found = []
    for line, target in imports(tree, path):
        parts = target.split(".")
        if parts[0] != "acp_twisted":
            continue
        other = parts[1] if len(parts) > 1 else "__init__"
        if not ((PACKAGE / other).is_dir() or (PACKAGE / f"{other}.py").is_file()):
            other = "__init__"  # a public name, taken from the package itself
        if other != room and other not in MAY_IMPORT[room]:
            found.append(f"{name_of(path)}:{line}: {room} may not import {target}")
    return found


def test_every_room_has_its_row() -> None:
    """A new room says what it may import before anything is in it."""
    rooms = {room_of(path) for path in MODULES} - {"testing"}
    assert rooms <= set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_arrows_point_down_only(path: Path) -> None:
    """cli, tap, service -> agent, client, proxy, mcp -> turn, transports -> schema -> jsonrpc -> the contracts."""
    if room_of(path) == "testing":
        assert path.is_file()
        return
    assert faults_of(path, parse(path)) == []


def test_the_walk_sees_a_forbidden_arrow() -> None:
    """The check can fail: plain, relative and hidden imports that point up are all seen."""
    path = PACKAGE / "jsonrpc" / "peer.py"
    source = (
        "import acp_twisted.agent.agent\n"
        "from acp_twisted.schema import v1\n"
        "from ..turn import timeouts\n"
        "def f():\n    from acp_twisted import AcpAgent\n"
        "from acp_twisted.errors import AcpError\n"
    )
    lines = [int(fault.split(":")[1]) for fault in faults_of(path, ast.parse(source))]
    assert sorted(lines) == [1, 2, 3, 5]


@pytest.mark.parametrize(
    ("pattern", "forbidden"),
    [
        ("jsonrpc/framing.py", {"twisted"}),
        ("schema/*.py", {"twisted"}),
        ("transports/*.py", {"json", "orjson", "cattrs"}),
        ("transports/http/*.py", {"json", "orjson", "cattrs"}),
        ("turn/*.py", {"json", "orjson"}),
    ],
)
def test_rooms_stay_clear_of_libraries_that_are_not_theirs(pattern: str, forbidden: set[str]) -> None:
    """Framing and schema know no Twisted; transports never parse JSON; turns touch neither."""
    paths = sorted(PACKAGE.glob(pattern))
    assert paths, f"no module fits {pattern}"
    used = [
        f"{name_of(path)}:{line}: {target}"
        for path in paths
        for line, target in imports(parse(path), path)
        if target.split(".")[0] in forbidden
    ]
    assert used == []


def clock_faults(path: Path, tree: ast.Module) -> list[str]:
    """
    Where a module takes time from anywhere but a parameter.

    A program must choose its reactor somewhere: the rooms that have programs may import it, inside of a function, and
    so may what runs it in a thread for programs that know of none.  And the scripted agent's C{blocking} directive is
    there to block its thread.
    """
    inside = {id(node) for top in ast.walk(tree) if isinstance(top, FUNCTIONS) for node in ast.walk(top)}
    may_choose = room_of(path) in PROGRAMS or name_of(path) in FOR_PROGRAMS
    found = []
    for node in ast.walk(tree):
        line = f"{name_of(path)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = {alias.name for alias in node.names}
            module = node.module if isinstance(node, ast.ImportFrom) else None
            reactor = "twisted.internet.reactor" in names or (module == "twisted.internet" and "reactor" in names)
            if reactor and not (may_choose and id(node) in inside):
                found.append(f"{line}: imports the reactor")
            if module == "time" and "sleep" in names:
                found.append(f"{line}: imports sleep")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "time.sleep" and name_of(path) not in BLOCKING:
            found.append(f"{line}: sleeps")
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_time_is_a_parameter(path: Path) -> None:
    """Design rule 8: no module imports the reactor, none sleeps."""
    assert clock_faults(path, parse(path)) == []


def test_the_walk_sees_a_reactor_and_a_sleep() -> None:
    """The check can fail, and an entry point's import is only free inside of a function."""
    reactor = "from twisted.internet import reactor\n"
    source = f"import time\n{reactor}def f():\n    {reactor}    time.sleep(1)\n"
    library = clock_faults(PACKAGE / "jsonrpc" / "peer.py", ast.parse(source))
    program = clock_faults(PACKAGE / "cli" / "main.py", ast.parse(source))
    assert [fault.split(":")[1] for fault in sorted(library)] == ["2", "4", "5"]
    assert [fault.split(":")[1] for fault in sorted(program)] == ["2", "5"]


def docstrings(tree: ast.Module) -> set[int]:
    """The identities of the nodes that only explain: any string that stands alone as a statement."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def test_jsonrpc_names_no_acp_method() -> None:
    """
    JSON-RPC knows nothing of ACP; C{$/cancel_request} and MCP's C{notifications/cancelled} are only dialects of
    cancellation, and in the module of that name.
    """
    named = []
    for path in sorted((PACKAGE / "jsonrpc").glob("*.py")):
        tree = parse(path)
        skip = docstrings(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in skip:
                continue
            of_acp = node.value.startswith(("session/", "fs/", "terminal/", "elicitation/", "providers/", "mcp/"))
            dialect = node.value.startswith(("$/", "notifications/")) and node.value not in ("$/", "notifications/")
            if of_acp or (dialect and path.name != "cancellation.py"):
                named.append(f"{name_of(path)}:{node.lineno}: {node.value}")
    assert named == []


@pytest.mark.parametrize("path", [path for path in MODULES if name_of(path) not in GENERATED], ids=name_of)
def test_no_module_outgrows_a_head(path: Path) -> None:
    """A room that grows past what one person holds in his head is split along its own seam."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_the_map_of_the_manual_shows_every_room() -> None:
    """And no room that does not exist."""
    page = (PACKAGE.parent / "docs" / "explanation" / "architecture.rst").read_text(encoding="utf-8")
    rooms = page.partition("The way of a message")[0]
    shown = {name for line in rooms.splitlines() if line.startswith("``") for name in line.replace("`", "").split(", ")}
    hidden = {"_version", "__init__"}
    assert shown == {room_of(path) for path in MODULES} - hidden
