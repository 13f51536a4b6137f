"""
The protocol's JSON Schema as classes, before they are written: what each definition becomes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import define, field
from schema_tables import MERGED, RENAMED, Tables

INTEGERS = ("int32", "int64", "uint16", "uint32", "uint64")
Schema = dict[str, Any]


@define
class Type:
    """
    @ivar wire: the type as C{acp_twisted.schema.codec} knows it.
    @ivar hint: the type as people and mypy know it.
    """

    wire: str
    hint: str
    nullable: bool = False


@define
class Member:
    """
    One attribute of a class.
    """

    attribute: str
    wire_name: str
    type: Type
    required: bool = False
    default: str | None = None
    flags: tuple[str, ...] = ()
    three_state: bool = False
    unstable: bool = False

    def declaration(self) -> str:
        hint = self.type.hint
        if self.default == "None" and "None" not in hint.split(" | ") and hint != "Any":
            hint += " | None"
        if self.three_state:
            nullable = self.type.wire not in ("any", "request_id")  # for these null is a value like others
            hint += " | Unset" + (" | None" if nullable else "")
        line = f"{self.attribute}: {hint}"
        if self.default is not None:
            line += f" = {self.default}"
        return line + ("  # unstable" if self.unstable else "")

    def wire_entry(self) -> str:
        if self.wire_name == "_meta" and not self.three_state:
            return f'"{self.attribute}": META'
        parts = [self.wire_name, self.type.wire, *([" ".join(self.flags)] if self.flags else [])]
        return f'"{self.attribute}": ({", ".join(json.dumps(part) for part in parts)})'


@define
class Class:
    """
    One class to be written.
    """

    name: str
    base: str = "Model"
    members: list[Member] = field(factory=list)
    inherited: list[Member] = field(factory=list)
    tag: tuple[str, str] | None = None
    one_of: tuple[str, ...] = ()
    extra: bool = False
    unstable: bool = False


def snake(name: str) -> str:
    return RENAMED.get(name) or re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def camel(tag: str) -> str:
    return "".join(part.capitalize() for part in tag.split("_"))


class Generator:
    """
    Reads both schemas, and keeps what becomes of them.

    @ivar classes: what to write, by name, each after those it inherits from.
    @ivar aliases: the right side of each type alias.
    @ivar unions: the descriptor of each union.
    """

    def __init__(self, stable: Schema, unstable: Schema | None, tables: Tables) -> None:
        self.tables = tables
        self.stable: Schema = stable["$defs"]
        self.defs: Schema = (unstable or stable)["$defs"]
        self.classes: dict[str, Class] = {}
        self.aliases: dict[str, list[str]] = {}
        self.unions: dict[str, str] = {}
        self.variants: dict[str, dict[str, str]] = {}
        for name, definition in self.defs.items():
            if not definition.get("x-docs-ignore") and name not in MERGED:
                self.define(name, definition)

    # ---- definitions

    def is_union(self, name: str) -> bool:
        """
        Whether an alias names classes, and so stands after them.
        """
        return any(re.search(rf"\b{each}\b", part) for part in self.aliases[name] for each in self.classes)

    def ordered(self) -> list[Class]:
        """
        The classes, each after those that its defaults and its base need.
        """
        done: dict[str, Class] = {}

        def add(made: Class) -> None:
            needed = [
                made.base,
                *re.findall(r"Factory\((\w+)\)", " ".join(each.default or "" for each in made.members)),
            ]
            for name in needed:
                if name in self.classes and name not in done:
                    add(self.classes[name])
            done.setdefault(made.name, made)

        for each in self.classes.values():
            add(each)
        return list(done.values())

    def is_unstable(self, name: str) -> bool:
        return name not in self.stable

    def define(self, name: str, definition: Schema) -> None:
        """
        Decide what a definition becomes.
        """
        special = getattr(self, f"define_{snake(name)}", None)
        branches = definition.get("oneOf") or definition.get("anyOf")
        if name in self.classes or name in self.aliases:
            return
        if self.tables.simple.get(name) == "any":
            self.aliases[name] = ["Any"]
        elif special is not None:
            special(name, definition)
        elif branches is None and "allOf" in definition:
            self.add(Class(name, base=self.ref_of(definition)))
        elif branches is None and definition.get("type") == "object":
            self.define_object(name, definition)
        elif branches is None:
            hint = self.type_of(definition).hint
            self.aliases[name] = [hint]
        elif all("const" in each or each.get("title") in ("other", "Other") for each in branches):
            self.define_enumeration(name, branches)
        elif "ref" in branches[0] or all(each.get("type") != "object" and "allOf" not in each for each in branches):
            self.define_plain_union(name, branches)
        else:
            self.define_union(name, definition, branches)

    def add(self, made: Class) -> None:
        made.unstable = self.is_unstable(made.name) if made.name in self.defs else made.unstable
        self.classes.setdefault(made.name, made)

    def define_object(self, name: str, definition: Schema) -> None:
        members = self.members_of(name, definition)
        if not [each for each in members if each.wire_name != "_meta"]:
            self.add(Class(name, base="MetaOnly", inherited=members))
            return
        extra = definition.get("additionalProperties") is True
        self.add(Class(name, members=members, extra=extra))

    def define_enumeration(self, name: str, branches: list[Schema]) -> None:
        if any(each.get("type") == "integer" for each in branches):
            self.aliases[name] = ["int"]
            return
        values = ", ".join(json.dumps(each["const"]) for each in branches if "const" in each)
        self.aliases[name] = [f"Literal[{values}]", "str"]

    def define_plain_union(self, name: str, branches: list[Schema]) -> None:
        self.aliases[name] = sorted(dict.fromkeys(self.type_of(each).hint for each in branches), key="None".__eq__)
        lists = [each["items"]["$ref"].rsplit("/", 1)[1] for each in branches if "$ref" in each.get("items", {})]
        if lists:
            absent, present = lists
            member = json.dumps(self.tables.group)
            self.unions[name] = f'ByItems(\n        {member}, present="{present}", absent="{absent}"\n    )'

    def define_union(self, name: str, definition: Schema, branches: list[Schema]) -> None:
        """
        A union of objects, told apart by a tag, or by the members they have.
        """
        shared = self.members_of(name, definition)
        tag = next(
            (key for each in branches for key, value in each.get("properties", {}).items() if "const" in value), None
        )
        if tag is None:
            self.define_union_by_member(name, branches)
            return
        variants: dict[str, str] = {}
        default = None
        for each in branches:
            value = each.get("properties", {}).get(tag, {}).get("const")
            if value is None and each.get("title") == "other":
                continue
            variant = self.variant(name, tag, value, each, shared)
            if value is None:
                default = variant
                if each["title"] in ("stdio", "agent"):
                    variants[each["title"]] = variant
            else:
                variants[value] = variant
        default = default or self.tables.default_variants.get(name)
        self.variants[name] = variants
        self.unions[name] = self.tagged(tag, variants, default)
        members: dict[str, None] = {}
        for made in [*variants.values(), *([default] if default else [])]:
            # A variant that is a union itself is there with its variants.
            inner = [made] if made in self.classes else self.aliases[made]
            members.update(dict.fromkeys(part for part in inner if part != "UnknownVariant"))
        self.aliases[name] = [*members, "UnknownVariant"]

    def tagged(
        self, tag: str, variants: dict[str, str], default: str | None = None, fallback: str | None = None
    ) -> str:
        inner = "".join(f"\n            {json.dumps(key)}: {json.dumps(value)}," for key, value in variants.items())
        rest = "".join(
            f"\n        {key}={json.dumps(value)},"
            for key, value in (("default", default), ("fallback", fallback))
            if value
        )
        return f"Tagged(\n        {json.dumps(tag)},\n        {{{inner}\n        }},{rest}\n    )"

    def variant(self, union: str, tag: str, value: str | None, branch: Schema, shared: list[Member]) -> str:
        """
        The class of one variant, made if there is none yet.
        """
        if "allOf" not in branch:
            name = self.tables.tag_names[union, value or ""]
            self.add(Class(name, base="MetaOnly", tag=(tag, value or ""), unstable=self.is_unstable(union)))
            return name
        payload = self.ref_of(branch)
        if payload in self.tables.shared_payloads:
            if payload not in self.classes:
                self.define(payload, self.defs[payload])
                self.share(self.classes[payload], shared)
            name = self.tables.variant_names.get((union, value or "")) or camel(value or "")
            self.add(Class(name, base=payload, tag=(tag, value or ""), inherited=self.classes[payload].members))
            return name
        self.define(payload, self.defs[payload])
        if payload not in self.classes:  # a union within a union: one more tag in the same object
            return payload
        made = self.classes[payload]
        self.share(made, shared)
        if value is not None and not self.used_bare(payload):
            made.tag = (tag, value)
        return payload

    @staticmethod
    def share(made: Class, shared: list[Member]) -> None:
        """
        Give a variant the members that all of its union have.
        """
        if shared:
            first = [each for each in shared if each.wire_name != "_meta"]
            made.members = [*first, *made.members, *(each for each in shared if each.wire_name == "_meta")]

    def define_union_by_member(self, name: str, branches: list[Schema]) -> None:
        names = [self.ref_of(each) if "$ref" not in each else self.ref_of({"allOf": [each]}) for each in branches]
        if len(names) == 1:
            self.aliases[name] = names
            return
        required = [set(self.defs[each]["required"]) for each in names]
        keys = [
            next(iter(mine - set().union(*(other for other in required if other is not mine)))) for mine in required
        ]
        inner = ", ".join(f'"{key}": "{each}"' for key, each in zip(keys, names, strict=True))
        self.unions[name] = f"ByMember({{{inner}}})"
        self.aliases[name] = names

    def used_bare(self, payload: str) -> bool:
        """
        Whether a variant's payload is also used where nothing tells it from others.
        """
        reference = {"$ref": f"#/$defs/{payload}"}
        for definition in self.defs.values():
            for value in definition.get("properties", {}).values():
                if reference in (value, value.get("items"), *value.get("allOf", ()), *value.get("anyOf", ())):
                    return True
        return False

    # ---- definitions that are like no other

    def define_create_elicitation_request(self, name: str, definition: Schema) -> None:
        """
        A message, a way of asking, and what it belongs to, in one object: a base class, and one class for each way.
        """
        mode = Member("mode", "mode", Type("str", "str"), required=True)
        scope = [
            *self.members_of("ElicitationSessionScope", self.defs["ElicitationSessionScope"]),
            *self.members_of("ElicitationRequestScope", self.defs["ElicitationRequestScope"]),
        ]
        for each in scope:
            if each.type.wire == "request_id":  # null is an id in version 1
                each.three_state, each.default = True, "UNSET"
            else:
                each.default = "None"
            each.required = False
        *shared, meta = self.members_of(name, definition)
        inherited = [mode, *shared, *scope, meta]
        one_of = ("session_id", "request_id")
        self.add(Class(name, members=inherited, extra=True, one_of=one_of))
        variants: dict[str, str] = {}
        for branch in definition["anyOf"]:
            value = branch["properties"]["mode"].get("const")
            if value is None:
                continue
            payload = self.ref_of(branch)
            own = [Member("mode", "mode", mode.type, default=json.dumps(value))]
            own += self.members_of(payload, self.defs[payload])
            names = {each.attribute for each in own}
            rest = [each for each in inherited if each.attribute not in names]
            self.add(Class(payload, base=name, members=own, inherited=rest, one_of=one_of))
            variants[value] = payload
        self.unions[name] = self.tagged("mode", variants, fallback=name)

    def define_elicitation_form_mode(self, name: str, definition: Schema) -> None:
        self.define("CreateElicitationRequest", self.defs["CreateElicitationRequest"])

    define_elicitation_url_mode = define_elicitation_form_mode

    def define_create_elicitation_response(self, name: str, definition: Schema) -> None:
        """
        What the user did, and for one of the answers what he wrote.
        """
        values = ", ".join(
            json.dumps(each["properties"]["action"]["const"])
            for each in definition["anyOf"]
            if "const" in each["properties"]["action"]
        )
        action = Member("action", "action", Type("str", f"Literal[{values}] | str"), required=True)
        content = self.members_of("ElicitationAcceptAction", self.defs["ElicitationAcceptAction"])
        self.add(Class(name, members=[action, *content, *self.members_of(name, definition)], extra=True))

    def define_idle_state_update(self, name: str, definition: Schema) -> None:
        """
        A reason, and for one of the reasons an error.
        """
        members = self.members_of(name, definition)
        reason = next(each for each in members if each.attribute == "stop_reason")
        others = [each for each in members if each is not reason and each.attribute != "meta"]
        error = self.members_of("ErrorStopReason", self.defs["ErrorStopReason"])
        meta = [each for each in members if each.attribute == "meta"]
        self.add(Class(name, members=[reason, *error, *others, *meta], extra=True))

    def define_set_session_config_option_request(self, name: str, definition: Schema) -> None:
        """
        The type of the value decides whether there is a tag, or the tag says what type the value has.
        """
        *members, meta = self.members_of(name, definition)
        if all("type" in each["properties"] for each in definition["anyOf"]):
            kind = Member("type", "type", Type("str", 'Literal["id", "boolean"] | str'), required=True)
            value = Member("value", "value", Type("typed_value", "Any"), required=True)
            self.add(Class(name, members=[*members, kind, value, meta], extra=True))
            return
        value = Member("value", "value", Type("config_value", "str | bool"), required=True)
        self.add(Class(name, members=[*members, value, meta]))

    def define_message_mcp_response(self, name: str, definition: Schema) -> None:
        """
        A result or an error: which one is there tells.
        """
        result = Member("result", "result", Type("any", "Any"), default="UNSET", three_state=True)
        [*error, meta] = self.members_of(name, definition["anyOf"][1])
        for each in error:
            each.required, each.default = False, "None"
        self.add(Class(name, members=[result, *error, meta], one_of=("result", "error")))

    # ---- members and types

    def members_of(self, name: str, definition: Schema) -> list[Member]:
        required = set(definition.get("required", ()))
        stable = self.stable.get(name, {}).get("properties", {})
        made = [
            self.member(name, key, value, key in required, key not in stable and not self.is_unstable(name))
            for key, value in definition.get("properties", {}).items()
        ]
        return sorted(made, key=lambda each: (not each.required, each.wire_name == "_meta"))

    def member(self, owner: str, key: str, schema: Schema, required: bool, unstable: bool) -> Member:
        kind = self.type_of(schema)
        flags = []
        if schema.get("x-deserialize-default-on-error"):
            flags.append("lenient")
        if schema.get("x-deserialize-skip-invalid-items"):
            flags.append("skip")
        made = Member(snake(key), key, kind, required=required, unstable=unstable)
        made.three_state = key in self.tables.three_state.get(owner, ())
        if made.three_state:
            made.default = "UNSET"
        elif (owner, key) in self.tables.input_optional:
            made.default = self.input_default(schema, kind)
        elif not required:
            made.default = self.default(owner, key, schema, kind)
            empty = made.default in ("Factory(list)", "Factory(dict)")
            if empty and "default" not in schema and key not in self.tables.always_written:
                flags.append("omit")
        elif "lenient" in flags and not kind.wire.startswith("list["):
            raise SystemExit(f"{owner}.{key} is required and lenient, and no list: what is its default?")
        made.flags = tuple(flags)
        return made

    def input_default(self, schema: Schema, kind: Type) -> str:
        """
        What is read where a peer leaves out what is required, as source.
        """
        container = kind.wire[:4] if kind.wire.startswith(("list[", "dict[")) else None
        if container:
            return f"Factory({container})"
        only = self.defs.get(kind.hint, {}).get("oneOf", ())
        return json.dumps(only[0]["const"]) if len(only) == 1 else "None"

    def default(self, owner: str, key: str, schema: Schema, kind: Type) -> str:
        """
        The default of a member that is not required, as source.
        """
        container = kind.wire[:4] if kind.wire.startswith(("list[", "dict[")) else None
        if (owner, key) in self.tables.defaults:
            return self.tables.defaults[owner, key]
        if isinstance(schema.get("default"), (bool, str)):
            return repr(schema["default"]).replace("'", '"')
        if kind.nullable or kind.wire == "any":
            return "None"
        if container is None and "default" not in schema:
            raise SystemExit(f"{owner}.{key} is neither required nor nullable: what is its default?")
        return f"Factory({container or kind.hint})"

    def ref_of(self, schema: Schema) -> str:
        [reference] = [each["$ref"] for each in schema["allOf"]]
        return str(reference).rsplit("/", 1)[1]

    def type_of(self, schema: Schema) -> Type:
        """
        The type of a member or an item.
        """
        if "$ref" in schema:
            return self.named(schema["$ref"].rsplit("/", 1)[1])
        if "allOf" in schema:
            return self.named(self.ref_of(schema))
        if "anyOf" in schema:
            rest = [each for each in schema["anyOf"] if each.get("type") != "null"]
            [only] = rest
            made = self.type_of(only)
            return Type(made.wire, made.hint, nullable=True)
        kinds = schema.get("type", "any")
        nullable = isinstance(kinds, list) and "null" in kinds
        [kind] = [each for each in ([kinds] if isinstance(kinds, str) else kinds) if each != "null"] or ["null"]
        made = self.plain(kind, schema)
        made.nullable = nullable
        return made

    def plain(self, kind: str, schema: Schema) -> Type:
        if kind == "array":
            item = self.type_of(schema["items"])
            return Type(f"list[{item.wire}]", f"Sequence[{item.hint}]")
        if kind == "object":
            values = schema.get("additionalProperties")
            if isinstance(values, dict):
                item = self.type_of(values)
                return Type(f"dict[{item.wire}]", f"dict[str, {item.hint}]")
            return Type("map", "dict[str, Any]")
        if kind == "integer":
            if schema["format"] not in INTEGERS:
                raise SystemExit(f"an integer of an unknown format: {schema['format']}")
            return Type(schema["format"], "int")
        return {
            "any": Type("any", "Any"),
            "null": Type("null", "None"),
            "string": Type("str", "str"),
            "boolean": Type("bool", "bool"),
            "number": Type("double", "float"),
        }[kind]

    def named(self, name: str) -> Type:
        """
        The type of a reference: on the wire what it stands for, for people its name.
        """
        definition = self.defs[name]
        branches = definition.get("oneOf") or definition.get("anyOf")
        if name in self.tables.simple:
            return Type(self.tables.simple[name], name)
        if branches is None and "properties" not in definition and definition.get("type") != "object":
            return Type(self.type_of(definition).wire, name)
        if branches and all(each.get("type") == "string" for each in branches):
            return Type("str", name)
        if branches and len(branches) == 1:
            return Type(
                self.ref_of(branches[0]) if "allOf" in branches[0] else branches[0]["$ref"].rsplit("/", 1)[1], name
            )
        return Type(name, name)
