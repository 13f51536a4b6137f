"""
The committed classes are what the generator makes of the protocol's schema, and they are all of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import schema_source
from schema_source import Source

from acp_twisted.schema import v1, v1_unstable, v2, v2_unstable
from acp_twisted.schema.values import META, MetaOnly, Model

ROOT = Path(__file__).resolve().parent.parent
GENERATOR = ROOT / "tools" / "generate_schema.py"

MERGED = {
    "ElicitationSessionScope": "CreateElicitationRequest",
    "ElicitationRequestScope": "CreateElicitationRequest",
    "ElicitationAcceptAction": "CreateElicitationResponse",
    "ErrorStopReason": "IdleStateUpdate",
}
"""Definitions whose members are in another class."""
WITH_SHARED = ("SessionConfigSelect", "SessionConfigBoolean", "DiffPathChange", "DiffPathPairChange")
"""Classes that have the members of the union they belong to."""
MODULES: dict[Source, tuple[Any, Any]] = {
    schema_source.V1: (v1, v1_unstable),
    schema_source.V2: (v2, v2_unstable),
}
both = pytest.mark.parametrize("source", MODULES, ids=str)


def classes(source: Source) -> list[type[Model]]:
    """
    Every class of a version.
    """
    made = [value for module in MODULES[source] for value in vars(module).values() if isinstance(value, type)]
    return sorted(
        {each for each in made if issubclass(each, Model)} - {Model, MetaOnly}, key=lambda each: each.__name__
    )


def generate(source: Source, folder: Path, *, unstable: Path | None = None) -> subprocess.CompletedProcess[str]:
    """
    Run the generator.
    """
    schemas = [str(source.path(unstable=False)), str(unstable or source.path(unstable=True))]
    command = [sys.executable, str(GENERATOR), *schemas, "-o", str(folder / f"{source}.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@both
def test_the_committed_modules_are_fresh(source: Source, tmp_path: Path) -> None:
    """
    Running the generator on the installed schema reproduces what is committed, byte for byte.
    """
    done = generate(source, tmp_path)
    assert done.returncode == 0, done.stderr
    for name in (f"{source}.py", f"{source}_unstable.py"):
        assert (tmp_path / name).read_bytes() == (ROOT / "acp_twisted" / "schema" / name).read_bytes(), name


@both
def test_a_class_without_words_of_ours_is_refused(source: Source, tmp_path: Path) -> None:
    """
    The generator does not write a class that tools/schema_docs.py says nothing about.
    """
    changed = json.loads(json.dumps(source.load(unstable=True)))
    changed["$defs"]["Brandnew"] = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(changed))
    done = generate(source, tmp_path, unstable=path)
    assert done.returncode != 0
    assert "Brandnew has no docstring" in done.stderr


@both
def test_every_type_is_there(source: Source) -> None:
    """
    Every definition but the envelopes has a class or an alias of its name, or is part of another one.
    """
    stable, _ = MODULES[source]
    missing = [name for name in source.names() if not hasattr(stable, name)]
    assert sorted(missing) == sorted(MERGED)
    for name, other in MERGED.items():
        assert set(source.definitions()[name]["properties"]) <= {
            wire for wire, *_ in getattr(stable, other).WIRE.values()
        }
    assert len(source.names()) > 200


def members_of(source: Source, schema: dict[str, Any]) -> set[str]:
    """
    The names of an object's members, those of its variants' shared payloads not included.
    """
    found = set(schema.get("properties", {}))
    for each in schema.get("allOf", ()):
        found |= members_of(source, source.definitions()[each["$ref"].rsplit("/", 1)[1]])
    return found


@both
def test_every_member_is_there(source: Source) -> None:
    """
    Every class has every member of its definition, C{_meta} as C{meta}, and a plain one has no others.
    """
    plain = 0
    for cls in classes(source):
        definition = source.definitions().get(cls.__name__)
        if definition is None:
            continue
        wires = {wire for wire, *_ in cls.WIRE.values()}
        members = members_of(source, definition)
        assert members <= wires, cls
        assert "_meta" not in members or cls.WIRE["meta"][:2] == META[:2], cls
        if not {"oneOf", "anyOf"} & set(definition) and not {each.__name__ for each in cls.__mro__} & set(WITH_SHARED):
            plain += 1
            assert wires - members <= {"_meta"}, cls
    assert plain > 150


@both
def test_attributes_and_table_agree(source: Source) -> None:
    """
    Each attribute has its line in its class's table, its name is in snake_case, and every class has words about it.
    """
    for cls in classes(source):
        names = [each.name for each in attrs.fields(cls) if each.name != "extra"]
        assert sorted(cls.WIRE) == sorted(names), cls
        assert all(name == name.lower() for name in names), cls
        assert cls.__doc__, cls
        assert not hasattr(cls(**dict.fromkeys(names)), "__dict__"), cls


@both
def test_unstable_classes_say_so(source: Source) -> None:
    """
    The classes that are not settled are in the second module, and their docstrings begin with it.
    """
    stable = source.load(unstable=False)["$defs"]
    for cls in classes(source):
        if cls.__name__ in source.definitions():
            unstable = cls.__name__ not in stable
            assert cls.__module__.endswith("_unstable") == unstable
            assert (cls.__doc__ or "").strip().startswith("Unstable.") == unstable


def test_the_unstable_half_loads_when_it_is_needed() -> None:
    """
    Importing the schema loads neither the unstable classes nor cattrs, and asking for one of them loads them.
    """
    script = (
        "import sys; from acp_twisted.schema import converter, v1, vocabulary\n"
        "assert 'acp_twisted.schema.v1_unstable' not in sys.modules\n"
        "assert 'cattrs' not in sys.modules\n"
        "x = converter.structure({'sessionId': 's', 'update': {'sessionUpdate': 'agent_message_chunk',"
        " 'content': {'type': 'text', 'text': 't'}}}, v1.SessionNotification)\n"
        "init = {'protocolVersion': 1, 'clientCapabilities': {'terminal': True}}\n"
        "y = converter.structure(init, v1.InitializeRequest)\n"
        "converter.unstructure(v1.InitializeResponse(protocol_version=1))\n"
        "converter.structure({'cwd': '/', 'mcpServers': []}, v1.NewSessionRequest)\n"
        "assert converter.unstructure(x) and converter.unstructure(y)\n"
        "assert 'acp_twisted.schema.v1_unstable' not in sys.modules\n"
        "v1.Usage\n"
        "assert 'acp_twisted.schema.v1_unstable' in sys.modules\n"
        "assert not hasattr(v1, 'Nonsense')\n"
        "converter.unstructure(x.update)\n"
        "assert 'acp_twisted.schema.v2' not in sys.modules\n"
        "assert vocabulary.vocabulary(2).version == 2\n"
        "assert 'acp_twisted.schema.v2_unstable' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
