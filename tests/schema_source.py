"""
The protocol's JSON Schema, as the TypeScript SDK ships it, and values made from it.

The schema is not ours and not in this repository: it is read from the SDK that C{tools/install_peers.py} installs.
Nothing here knows our classes, so that what is made here is an independent check of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from peers import peer

Schema = dict[str, Any]
RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


class Source:
    """
    The schema of one version of the protocol.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self._validators: dict[str, Draft202012Validator] = {}
        self._values: dict[str, st.SearchStrategy[Any]] = {}
        self._loaded: dict[bool, Schema] = {}

    def __repr__(self) -> str:
        return f"v{self.version}"

    def path(self, *, unstable: bool) -> Path:
        """
        Where the schema is.

        @raise PeerMissing: when the SDK is not installed; it says how to install it.
        """
        name = "schema.unstable.json" if unstable else "schema.json"
        return peer("ts24").package("@agentclientprotocol/sdk") / "schema" / f"v{self.version}" / name

    def load(self, *, unstable: bool) -> Schema:
        """
        The parsed schema.
        """
        if unstable not in self._loaded:
            self._loaded[unstable] = json.loads(self.path(unstable=unstable).read_text(encoding="utf-8"))
        return self._loaded[unstable]

    def definitions(self) -> Schema:
        """
        Every type, the unstable ones too.
        """
        found: Schema = self.load(unstable=True)["$defs"]
        return found

    def names(self) -> list[str]:
        """
        The names of all types but the envelopes, which are JSON-RPC's.
        """
        return [name for name, each in self.definitions().items() if not each.get("x-docs-ignore")]

    def validator(self, name: str) -> Draft202012Validator:
        """
        What tells whether JSON is of a type.
        """
        if name not in self._validators:
            schema = {"$ref": f"#/$defs/{name}", "$defs": self.definitions()}
            self._validators[name] = Draft202012Validator(schema)
        return self._validators[name]

    def is_valid(self, schema: Schema, value: object) -> bool:
        """
        Whether JSON fits a part of the schema.
        """
        return Draft202012Validator({**schema, "$defs": self.definitions()}).is_valid(value)

    # ---- the smallest value of a type

    def example(self, schema: Schema, branch: int = 0) -> Any:
        """
        A value with nothing that is not required.

        @param branch: which variant to take, where there are several.
        """
        if "$ref" in schema:
            return self.example(self.definitions()[schema["$ref"].rsplit("/", 1)[1]], branch)
        if "const" in schema:
            return schema["const"]
        branches = schema.get("oneOf") or schema.get("anyOf")
        parts = [self.example(each, branch) for each in schema.get("allOf", ())]
        if branches:
            parts.append(self.example(branches[min(branch, len(branches) - 1)]))
        if parts and not isinstance(parts[-1], dict):
            return parts[-1]
        if "properties" in schema or schema.get("type") == "object" or parts:
            merged: dict[str, Any] = {}
            for each in parts:
                merged.update(each)
            return {
                **{key: self.example(schema["properties"][key]) for key in schema.get("required", ())},
                **merged,
            }
        kinds = schema.get("type")
        kind = kinds[0] if isinstance(kinds, list) else kinds
        if kind == "array":
            return [self.example(schema["items"])] * schema.get("minItems", 0)
        return {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}.get(kind or "", {})

    # ---- any value of a type

    def values(self, name: str) -> st.SearchStrategy[Any]:
        """
        All values of a type.
        """
        if name not in self._values:
            self._values[name] = self.of_schema(self.definitions()[name])
        return self._values[name]

    def of_schema(self, schema: Schema, *, unknown: bool = False) -> st.SearchStrategy[Any]:
        """
        All values of a part of the schema.

        @param unknown: strings are to be none that the schema names.
        """
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            return st.deferred(lambda: self.values(name))
        if "const" in schema:
            return st.just(schema["const"])
        branches = schema.get("oneOf") or schema.get("anyOf")
        parts = [self.of_schema(each) for each in schema.get("allOf", ())]
        if branches:
            parts.append(st.one_of([self.of_schema(each) for each in branches]))
        if "properties" in schema:
            own = self._objects(schema, unknown="not" in schema)
            return st.tuples(own, *parts).map(_merged)
        if parts:
            return parts[0] if len(parts) == 1 else st.tuples(*parts).map(_merged)
        return self._plain(schema, unknown=unknown)

    def _objects(self, schema: Schema, *, unknown: bool) -> st.SearchStrategy[dict[str, Any]]:
        required = set(schema.get("required", ()))
        members = {key: self.of_schema(each, unknown=unknown) for key, each in schema["properties"].items()}
        known = st.fixed_dictionaries(
            {key: each for key, each in members.items() if key in required},
            optional={key: each for key, each in members.items() if key not in required},
        )
        if not unknown:
            return known
        more = st.dictionaries(TEXT.map(lambda text: f"_{text}"), JSON, max_size=2)
        return st.tuples(more, known).map(_merged)

    def _plain(self, schema: Schema, *, unknown: bool) -> st.SearchStrategy[Any]:
        kinds = schema.get("type")
        if kinds is None:
            return JSON
        return st.one_of(
            [self._of_kind(each, schema, unknown) for each in ([kinds] if isinstance(kinds, str) else kinds)]
        )

    def _of_kind(self, kind: str, schema: Schema, unknown: bool) -> st.SearchStrategy[Any]:
        if kind == "string":
            return TEXT.map(lambda text: f"_{text}") if unknown or schema.get("minLength") else TEXT
        if kind == "integer":
            low, high = RANGES[schema["format"]]
            low = max(low, schema.get("minimum", low))
            return st.integers(low, high) | st.integers(max(low, 0), 2**15).map(float)
        if kind == "array":
            return st.lists(self.of_schema(schema["items"]), max_size=3, min_size=schema.get("minItems", 0))
        if kind == "object":
            inner = schema.get("additionalProperties")
            if inner is None:
                return st.just({})  # nothing is known of what may be in it, so nothing of it is kept
            return st.dictionaries(TEXT, self.of_schema(inner) if isinstance(inner, dict) else JSON, max_size=2)
        return {"number": _numbers(schema), "boolean": st.booleans(), "null": st.none()}[kind]


def _numbers(schema: Schema) -> st.SearchStrategy[Any]:
    low, high = schema.get("minimum"), schema.get("maximum")
    floats = st.floats(low, high, allow_nan=False, allow_infinity=False)
    return floats if low is not None or high is not None else floats | st.integers(-(2**53), 2**53)


def _merged(parts: tuple[Any, ...]) -> Any:
    result: dict[str, Any] = {}
    for each in parts:
        result.update(each)
    return result


V1, V2 = Source(1), Source(2)
