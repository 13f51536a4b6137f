"""
What turns JSON into the classes of a version of the protocol and back, fast.

For each class two functions are written and compiled when they are first needed: one reads an object, one writes it.
They check as they go and stop at the first thing that does not fit, with no word about it; who wants to know asks
L{acp_twisted.schema.explain}, which is slow and thorough.

The rules of reading:

  - unknown members are dropped, unless the class has C{extra};
  - C{lenient}: a value that does not fit counts as absent; C{skip}: such an item of a list is left out;
  - null is absent for every member that is not required; only where the class has C{UNSET} the two differ;
  - a required list that is lenient may be missing;
  - C{true} is no number, C{2.0} is a whole number, and every whole number has its range;
  - a variant that is not known is kept as it is; one that is known must fit.

The rules of writing: what is required is always there; L{None} and C{UNSET} are left out, but for a L{None} that
clears.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from attrs import fields_dict

from acp_twisted.schema import leaves
from acp_twisted.schema.leaves import RANGES, SIMPLE, Field, Misfit, fields_of, split
from acp_twisted.schema.values import UNSET, Alternatives, ByItems, ByMember, Model, Tagged, UnknownVariant

Function = Callable[[Any], Any]
_T = TypeVar("_T")


class Version(Protocol):
    """
    Where the codec looks names up.
    """

    def find_class(self, name: str) -> type[Model]:
        """
        The class of that name.
        """

    def find_union(self, name: str) -> Alternatives | None:
        """
        The union of that name, if it is one.
        """


class _Readers(dict[Any, Function]):
    """
    The readers of a tagged union by the tag's value, each made when its tag is first met.
    """

    def __init__(self, codec: Codec, union: Tagged) -> None:
        super().__init__()
        self._codec = codec
        self._union = union

    def __missing__(self, tag: object) -> Function:
        union = self._union
        name: str | None
        if tag is None and union.default is not None:
            name = union.default
        elif isinstance(tag, str):
            name = union.variants.get(tag)
        else:
            raise Misfit
        if name is not None:
            made = self[tag] = self._codec.variant_reader(name, union.tag)
            return made
        if union.fallback is not None:
            return self._codec.class_reader(union.fallback)
        return self._unknown

    def _unknown(self, value: Any) -> UnknownVariant:
        if value.__class__ is not dict:
            raise Misfit
        return UnknownVariant(value[self._union.tag], value)


class _Writers(dict[type, Function]):
    """
    The writers of a union by the class of the value.
    """

    def __init__(self, codec: Codec, name: str, union: Tagged | ByMember) -> None:
        super().__init__()
        self._codec = codec
        self._name = name
        self._tags: dict[str, tuple[str, str] | None]
        self._within: dict[str, Function] = {}  # the writers of variants of variants
        if isinstance(union, ByMember):
            self._tags = dict.fromkeys(union.variants.values())
            return
        self[UnknownVariant] = lambda value: value.raw
        # A class of the fallback has its tag among its members; the default has none.
        self._tags = {each: None if union.fallback else (union.tag, tag) for tag, each in union.variants.items()}
        self._tags.update({each: None for each in (union.default, union.fallback) if each is not None})
        for variant in union.variants.values():
            inner = codec.version.find_union(variant)
            if isinstance(inner, Tagged) and inner is not union:
                write = _with_tag(codec.writer(variant), self._tags.pop(variant))
                self._within.update(dict.fromkeys(inner.variants.values(), write))

    def __missing__(self, cls: type) -> Function:
        for base in cls.__mro__:
            if not (base.__name__ in self._tags or base.__name__ in self._within) or not issubclass(base, Model):
                continue
            if base is not self._codec.version.find_class(base.__name__):
                continue  # another version has a class of that name too
            if base.__name__ in self._within:
                made = self[cls] = self._within[base.__name__]
            else:
                made = self[cls] = self._codec.class_writer(base, self._tags[base.__name__])
            return made
        raise TypeError(f"{cls.__name__} is no {self._name}")


class Codec:
    """
    The readers and writers of one version of the protocol.

    @ivar skipped: called with a class, one of its members, and how many items of it did not fit and were left out.
    @ivar foreign_reader: a reader from elsewhere for a class, to be used instead of ours; or L{None}.
    @ivar foreign_writer: the same for writing.
    """

    def __init__(self, version: Version) -> None:
        self.version = version
        self.skipped: Callable[[str, str, int], None] = lambda cls, member, count: None
        self.foreign_reader: Callable[[type[Model]], Function | None] = lambda cls: None
        self.foreign_writer: Callable[[type[Model]], Function | None] = lambda cls: None
        self._class_readers: dict[str, Function] = {}
        self._class_writers: dict[tuple[str, tuple[str, str] | None], Function] = {}
        # The globals of the compiled functions.
        self._names: dict[str, Any] = {
            "new": object.__new__,
            "UNSET": UNSET,
            "Misfit": Misfit,
            "BIGGEST": leaves.BIGGEST,
            "whole": leaves.whole,
            "finite": leaves.finite,
            "request_id": leaves.request_id,
            "strict_id": leaves.strict_id,
            "content_value": leaves.content_value,
            "config_value": leaves.config_value,
            "typed_value": leaves.typed_value,
            "read_good": self._read_good,
        }

    # ---- reading

    def reader(self, name: str) -> Function:
        """
        What reads a value of a class or a union.
        """
        union = self.version.find_union(name)
        if union is None:
            return self.class_reader(name)
        if isinstance(union, Tagged):
            return self._tagged_reader(name, union)
        if isinstance(union, ByMember):
            return self._member_reader(union)
        return self._items_reader(union)

    def class_reader(self, name: str) -> Function:
        """
        What reads an object of a class, also where a union has the same name.
        """
        made = self._class_readers.get(name)
        if made is None:
            cls = self.version.find_class(name)
            made = self._class_readers[name] = self.foreign_reader(cls) or self._compile_reader(cls)
        return made

    def variant_reader(self, name: str, tag: str) -> Function:
        """
        What reads a variant of a union: an object of a class, or one with one more tag that tells of which.

        @param tag: the union's own tag.
        """
        inner = self.version.find_union(name)
        if isinstance(inner, Tagged) and inner.fallback != name:
            return _without_extra(self._tagged_reader(name, inner), tag)
        return self.class_reader(name)

    def _tagged_reader(self, name: str, union: Tagged) -> Function:
        table = self._names[self._readers(name, union)]
        tag = union.tag

        def read_tagged(value: Any) -> Any:
            if value.__class__ is not dict:
                raise Misfit
            return table[value.get(tag)](value)

        return read_tagged

    def _member_reader(self, union: ByMember) -> Function:
        def read_by_member(value: Any) -> Any:
            if value.__class__ is dict:
                for member, name in union.variants.items():
                    if member in value:
                        return self.class_reader(name)(value)
            raise Misfit

        return read_by_member

    def _items_reader(self, union: ByItems) -> Function:
        member, readers = union.member, self._class_readers

        def read_items(value: Any) -> Any:
            if value.__class__ is not list:
                raise Misfit
            name = union.absent
            for each in value:  # any() would take longer than all of the rest
                if each.__class__ is dict and member in each:
                    name = union.present
                    break
            read = readers.get(name) or self.class_reader(name)
            return [read(each) for each in value]

        return read_items

    def _read_good(self, value: list[Any], read: Function, cls: str, member: str) -> list[Any]:
        good = []
        for each in value:
            try:
                good.append(read(each))
            except Exception:
                continue
        self.skipped(cls, member, len(value) - len(good))
        return good

    def _readers(self, name: str, union: Tagged) -> str:
        key = f"readers_{name}"
        self._names.setdefault(key, _Readers(self, union))
        return key

    def _writers(self, name: str, union: Tagged | ByMember) -> str:
        key = f"writers_{name}"
        self._names.setdefault(key, _Writers(self, name, union))
        return key

    def _later(self, prefix: str, name: str, make: Callable[[str], Function]) -> str:
        """
        The name, for compiled functions, of one that is made when it is first called.
        """
        key = f"{prefix}_{name}"

        def first(value: Any) -> Any:
            made = self._names[key] = make(name)
            return made(value)

        self._names.setdefault(key, first)
        return key

    def _reading(self, kind: str) -> str:
        """
        An expression that reads C{v}, for what is not checked in place.
        """
        if kind in ("config_value", "typed_value"):
            return f"{kind}(v, o)"
        if kind in SIMPLE:
            return f"{kind}(v)"
        union = self.version.find_union(kind)
        if isinstance(union, Tagged):
            tag = f'v["{union.tag}"]' if union.default is None else f'v.get("{union.tag}")'
            return f"{self._readers(kind, union)}[{tag}](v)"
        return f"{self._later('read', kind, self.reader)}(v)"

    def _checks(self, kind: str, owner: str = "", member: str = "", *, skip: bool = False) -> list[str]:
        """
        Lines that check C{v}, and make of it what the attribute holds.
        """
        outer, inner = split(kind)
        if outer == "list":
            return ["if v.__class__ is not list: raise Misfit", *self._checks_of_items(inner, owner, member, skip)]
        if outer == "dict":
            items = f"{{key: {self._item_reader(inner)}(each) for key, each in v.items()}}"
            return ["if v.__class__ is not dict: raise Misfit", f"v = {items}"]
        if kind in RANGES:
            low, high = RANGES[kind]
            return ["if v.__class__ is not int: v = whole(v)", f"if not {low} <= v <= {high}: raise Misfit"]
        tests = {
            "any": None,
            "str": "v.__class__ is not str",
            "map": "v.__class__ is not dict",
            "bool": "v is not True and v is not False",
            "double": "v.__class__ is not float and v.__class__ is not int or not -BIGGEST <= v <= BIGGEST",
        }
        if kind not in tests:
            return [f"v = {self._reading(kind)}"]
        test = tests[kind]
        return [] if test is None else [f"if {test}: raise Misfit"]

    def _checks_of_items(self, inner: str, owner: str, member: str, skip: bool) -> list[str]:
        if inner == "str":
            lines = ["for e in v:", "    if e.__class__ is not str: raise Misfit"]
        else:
            reading = f"{self._item_reader(inner)}(v)" if inner in RANGES else self._reading(inner)
            lines = [f"v = [{reading} for v in v]"]
        if not skip:
            return lines
        return [
            "try:",
            *(f"    {line}" for line in lines),
            f"except Exception: v = read_good(v, {self._item_reader(inner)}, {owner!r}, {member!r})",
        ]

    def _item_reader(self, kind: str) -> str:
        """
        The name of what reads one item of a list or a dict.
        """
        key = f"item_{kind}"
        if key not in self._names:
            lines = ["def read(v):", *(f"    {line}" for line in self._checks(kind)), "    return v"]
            self._names[key] = self._compile(lines, "read", key)
        return key

    def _compile_reader(self, cls: type[Model]) -> Function:
        name = cls.__name__
        self._names[name] = cls
        fields = list(fields_of(cls))
        body = []
        if name.endswith(("Request", "Response", "Notification")) and not any(each.needed for each in fields):
            # "result": null is an empty response, and absent params are empty ones.
            body.append("if o is None: o = {}")
        # The slots are filled one by one: that takes half the time of a call with keywords.
        body += ["if o.__class__ is not dict: raise Misfit", "get = o.get", f"x = new({name})"]
        for each in fields:
            body += self._read_field(name, each)
            body.append(f"x.{each.name} = v")
        if cls.ONE_OF:
            body.append(f"if {_none_of(cls, fields)}: raise Misfit")
        if "extra" in fields_dict(cls):
            self._names[f"known_{name}"] = {each.wire for each in fields} | ({cls.TAG[0]} if cls.TAG else set())
            body.append(f"x.extra = {{key: value for key, value in o.items() if key not in known_{name}}} or None")
        return self._compile(
            ["def read(o):", *(f"    {line}" for line in body), "    return x"], "read", f"read {name}"
        )

    def _read_field(self, owner: str, each: Field) -> list[str]:
        """
        Lines that leave the attribute's value in C{v}.
        """
        checks = self._checks(each.type, owner, each.wire, skip=each.skip)
        if each.needed:
            return [f'v = o["{each.wire}"]', *checks]
        default = "UNSET" if each.default is UNSET else repr(each.default)
        if each.factory is not None:
            self._names[f"default_{owner}_{each.name}"] = each.factory
            default = f"default_{owner}_{each.name}()"
        if each.written == "touched":
            # Absent stays UNSET; null is a value of its own.
            nullable = "" if each.type in ("any", "request_id") else "v is not None and "
            head = [f'v = get("{each.wire}", UNSET)', f"if {nullable}v is not UNSET:"]
        elif default == "None":
            head = [f'v = get("{each.wire}")', "if v is not None:"]
        else:
            head = [f'v = get("{each.wire}")', f"if v is None: v = {default}", "else:"]
        if not checks:
            return head[:1]
        if not each.lenient:
            return [*head, *(f"    {line}" for line in checks)]
        if len(checks) == 1 and checks[0].endswith("raise Misfit"):
            # The common case, without the cost of a try.
            return [*head, "    " + checks[0].replace("raise Misfit", f"v = {default}")]
        return [*head, "    try:", *(f"        {line}" for line in checks), f"    except Exception: v = {default}"]

    def _compile(self, lines: list[str], name: str, title: str) -> Function:
        made: dict[str, Function] = {}
        exec(compile("\n".join(lines), f"<{title}>", "exec"), self._names, made)
        return made[name]

    # ---- writing

    def writer(self, name: str) -> Function:
        """
        What writes a value of a class or a union.
        """
        union = self.version.find_union(name)
        if union is None:
            return self.class_writer(self.version.find_class(name))
        if isinstance(union, ByItems):
            table = self._names[self._writers(name, ByMember({"present": union.present, "absent": union.absent}))]
            return lambda value: [table[each.__class__](each) for each in value]
        table = self._names[self._writers(name, union)]
        return lambda value: table[value.__class__](value)

    def class_writer(self, cls: type[Model], tag: tuple[str, str] | None = None) -> Function:
        """
        What writes an object of a class.

        @param tag: the member that the union wants; a class's own C{TAG} is always written.
        """
        key = cls.__name__, tag
        made = self._class_writers.get(key)
        if made is None:
            foreign = self.foreign_writer(cls)
            made = self._class_writers[key] = (
                self._compile_writer(cls, tag or cls.TAG) if foreign is None else _with_tag(foreign, tag or cls.TAG)
            )
        return made

    def _writing(self, kind: str, value: str) -> str:
        """
        An expression that writes a value.
        """
        outer, inner = split(kind)
        if outer == "list":
            return f"[*{value}]" if inner in SIMPLE else f"[{self._writing(inner, 'e')} for e in {value}]"
        if outer == "dict":
            return value if inner in SIMPLE else f"{{k: {self._writing(inner, 'e')} for k, e in {value}.items()}}"
        if kind in SIMPLE:
            return f"finite({value})" if kind == "double" else value
        union = self.version.find_union(kind)
        if isinstance(union, (Tagged, ByMember)):
            return f"{self._writers(kind, union)}[{value}.__class__]({value})"
        return f"{self._later('write', kind, self.writer)}({value})"

    def _compile_writer(self, cls: type[Model], tag: tuple[str, str] | None) -> Function:
        name = cls.__name__
        fields = list(fields_of(cls))
        first = [f'"{tag[0]}": "{tag[1]}"'] if tag else []
        first += [
            f'"{each.wire}": {self._writing(each.type, f"x.{each.name}")}'
            for each in fields
            if each.written == "always"
        ]
        body = [f"d = {{{', '.join(first)}}}"]
        tests = {"filled": "if v", "set": "if v is not None", "touched": "if v is not UNSET"}
        for each in fields:
            if each.written == "always":
                continue
            value = self._writing(each.type, "v")
            if each.written == "touched" and value != "v":
                value = f"None if v is None else {value}"
            body += [f"v = x.{each.name}", f'{tests[each.written]}: d["{each.wire}"] = {value}']
        if cls.ONE_OF:
            message = f"{name} needs one of {', '.join(cls.ONE_OF)}"
            body.append(f"if {_none_of(cls, fields)}: raise ValueError({message!r})")
        body += [
            f'if x.{each.name}.__class__ is bool: d["type"] = "boolean"'
            for each in fields
            if each.type == "config_value"
        ]
        if "extra" in fields_dict(cls):
            body.append("if x.extra: d = {**x.extra, **d}")
        return self._compile(
            ["def write(x):", *(f"    {line}" for line in body), "    return d"], "write", f"write {name}"
        )


def _none_of(cls: type[Model], fields: list[Field]) -> str:
    """
    A test for an object C{x} that has none of what it needs one of.
    """
    return " and ".join(
        f"x.{each.name} is {'UNSET' if each.written == 'touched' else 'None'}"
        for each in fields
        if each.name in cls.ONE_OF
    )


def _with_tag(write: Function, tag: tuple[str, str] | None) -> Function:
    if tag is None:
        return write
    return lambda value: {tag[0]: tag[1], **write(value)}


def _without_extra(read: Function, member: str) -> Function:
    """
    What C{read} reads, without a member that is known after all.
    """

    def read_without(value: Any) -> Any:
        made = read(value)
        if getattr(made, "extra", None):
            made.extra = {key: each for key, each in made.extra.items() if key != member} or None
        return made

    return read_without
