"""
What MCP talks about, as attrs classes: tools, resources, prompts, content, and what the server says of itself.

They are read leniently and written as they came: a member that is not known here is kept in C{extra}, a kind of content
that is not known is an L{UnknownContent}.  What a method can't do without is required; a value of the wrong type is a
L{ShapeError}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from attrs import NOTHING, Attribute, define, field, fields, frozen

_S = TypeVar("_S", bound="Shape")
_I = TypeVar("_I")


class ShapeError(ValueError):
    """
    JSON that is none of what was expected.  The text names the member, and never what it held.
    """


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _checked(kind: type[Any], value: object, name: str) -> Any:
    if kind is object:
        return value
    wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
    if wrong and not (kind is float and type(value) is int):
        raise ShapeError(f"{name} is no {kind.__name__}")
    return value


def _is(kind: type[Any], *, many: bool = False) -> dict[str, Any]:
    """
    What a member holds: a JSON value of a type, or an object of one of these classes, or a list of either.
    """
    return {"kind": kind, "many": many}


@define(kw_only=True)
class Shape:
    """
    The base of these classes.

    @ivar meta: the object's C{_meta}.
    @ivar extra: the members that are not known here.
    """

    TYPE: ClassVar[str] = ""

    meta: dict[str, Any] | None = field(default=None, metadata={"wire": "_meta", "kind": dict})
    extra: dict[str, Any] = field(factory=dict, repr=False)

    @classmethod
    def from_json(cls: type[_S], value: object) -> _S:
        """
        Read one.

        @raise ShapeError: when it is none.
        """
        if not isinstance(value, dict):
            raise ShapeError(f"{cls.__name__} is no object")
        left = dict(value)
        found: dict[str, Any] = {}
        for each in fields(cls):
            if each.name == "extra":
                continue
            name = _wire_name(each)
            given = left.pop(name, None)
            if given is not None:
                found[each.name] = _read(each, given, f"{cls.__name__}.{name}")
            elif each.default is NOTHING:
                raise ShapeError(f"{cls.__name__}.{name} is missing")
        if cls.TYPE:
            left.pop("type", None)
        return cls(**found, extra=left)

    def to_json(self) -> dict[str, Any]:
        """
        Write it.
        """
        result: dict[str, Any] = {"type": self.TYPE} if self.TYPE else {}
        for each in fields(type(self)):
            value = getattr(self, each.name)
            if each.name != "extra" and value is not None:
                result[_wire_name(each)] = _write(value)
        return {**self.extra, **result}


def _wire_name(attribute: Attribute[Any]) -> str:
    name: str = attribute.metadata.get("wire") or _camel(attribute.name)
    return name


def _read(attribute: Attribute[Any], value: object, name: str) -> Any:
    kind = attribute.metadata.get("kind", object)
    if attribute.metadata.get("many"):
        return [_read_one(kind, each, name) for each in _checked(list, value, name)]
    return _read_one(kind, value, name)


def _read_one(kind: Any, value: object, name: str) -> Any:
    reader = getattr(kind, "from_json", None)
    return reader(value) if reader is not None else _checked(kind, value, name)


def _write(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_write(each) for each in value]
    writer = getattr(value, "to_json", None)
    return writer() if writer is not None else value


@define(kw_only=True)
class Implementation(Shape):
    """
    What a program says of itself.
    """

    name: str = field(metadata=_is(str))
    version: str = field(metadata=_is(str))
    title: str | None = field(default=None, metadata=_is(str))


@define(kw_only=True)
class ServerInfo:
    """
    What was agreed with a server.

    @ivar protocol_version: the revision that is spoken.
    @ivar capabilities: what the server can do, as JSON.
    @ivar info: what it says of itself; L{None} where it says nothing.
    @ivar instructions: how to use it, for a model.
    """

    protocol_version: str
    capabilities: Mapping[str, Any]
    info: Implementation | None = None
    instructions: str | None = None


# ---- content


@define(kw_only=True)
class TextContent(Shape):
    """
    Text.
    """

    TYPE: ClassVar[str] = "text"

    text: str = field(metadata=_is(str))
    annotations: dict[str, Any] | None = field(default=None, metadata=_is(dict))


@define(kw_only=True)
class ImageContent(Shape):
    """
    An image, in base64.
    """

    TYPE: ClassVar[str] = "image"

    data: str = field(metadata=_is(str))
    mime_type: str = field(metadata=_is(str))
    annotations: dict[str, Any] | None = field(default=None, metadata=_is(dict))


@define(kw_only=True)
class AudioContent(Shape):
    """
    Sound, in base64.
    """

    TYPE: ClassVar[str] = "audio"

    data: str = field(metadata=_is(str))
    mime_type: str = field(metadata=_is(str))
    annotations: dict[str, Any] | None = field(default=None, metadata=_is(dict))


@define(kw_only=True)
class ResourceLink(Shape):
    """
    Where a resource is.
    """

    TYPE: ClassVar[str] = "resource_link"

    uri: str = field(metadata=_is(str))
    name: str = field(metadata=_is(str))
    title: str | None = field(default=None, metadata=_is(str))
    description: str | None = field(default=None, metadata=_is(str))
    mime_type: str | None = field(default=None, metadata=_is(str))


@define(kw_only=True)
class ResourceContents(Shape):
    """
    What a resource holds: C{text}, or C{blob} in base64.
    """

    uri: str = field(metadata=_is(str))
    mime_type: str | None = field(default=None, metadata=_is(str))
    text: str | None = field(default=None, metadata=_is(str))
    blob: str | None = field(default=None, metadata=_is(str))


@define(kw_only=True)
class EmbeddedResource(Shape):
    """
    A resource within a message.
    """

    TYPE: ClassVar[str] = "resource"

    resource: ResourceContents = field(metadata=_is(ResourceContents))
    annotations: dict[str, Any] | None = field(default=None, metadata=_is(dict))


@frozen
class UnknownContent:
    """
    Content of a kind that is not known here.  It is written as it came.

    @ivar type: its kind.
    """

    type: str
    raw: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """
        As it came.
        """
        return self.raw


Content: TypeAlias = "TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent"

_CONTENT: dict[str, type[Shape]] = {
    each.TYPE: each for each in (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
}


class AnyContent:
    """
    Reads the union of all content.
    """

    @staticmethod
    def from_json(value: object) -> Content:
        """
        Read one.

        @raise ShapeError: when it has no type, or is none of its type.
        """
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            raise ShapeError("content has no type")
        known = _CONTENT.get(value["type"])
        if known is None:
            return UnknownContent(value["type"], value)
        read: Any = known.from_json(value)
        result: Content = read
        return result


# ---- tools


@define(kw_only=True)
class Tool(Shape):
    """
    A tool that a server offers.

    @ivar input_schema: the JSON schema of its arguments.
    @ivar annotations: what it says of its behaviour; hints, and not to be trusted.
    """

    name: str = field(metadata=_is(str))
    input_schema: dict[str, Any] = field(metadata=_is(dict))
    title: str | None = field(default=None, metadata=_is(str))
    description: str | None = field(default=None, metadata=_is(str))
    output_schema: dict[str, Any] | None = field(default=None, metadata=_is(dict))
    annotations: dict[str, Any] | None = field(default=None, metadata=_is(dict))


@define(kw_only=True)
class ToolResult(Shape):
    """
    What a tool came to.

    @ivar structured_content: the same as any JSON, where the tool has an output schema.
    @ivar is_error: whether the tool failed; C{content} then says how, for the model.
    """

    content: Sequence[Content] = field(factory=list, metadata=_is(AnyContent, many=True))
    structured_content: Any = field(default=None, metadata=_is(object))
    is_error: bool = field(default=False, metadata=_is(bool))

    @property
    def text(self) -> str:
        """
        All of its text.
        """
        return "\n".join(each.text for each in self.content if isinstance(each, TextContent))


# ---- resources and prompts


@define(kw_only=True)
class Resource(Shape):
    """
    Something that can be read.
    """

    uri: str = field(metadata=_is(str))
    name: str = field(metadata=_is(str))
    title: str | None = field(default=None, metadata=_is(str))
    description: str | None = field(default=None, metadata=_is(str))
    mime_type: str | None = field(default=None, metadata=_is(str))
    size: int | None = field(default=None, metadata=_is(int))


@define(kw_only=True)
class ResourceTemplate(Shape):
    """
    A family of resources, by a template of their URIs.
    """

    uri_template: str = field(metadata=_is(str))
    name: str = field(metadata=_is(str))
    title: str | None = field(default=None, metadata=_is(str))
    description: str | None = field(default=None, metadata=_is(str))
    mime_type: str | None = field(default=None, metadata=_is(str))


@define(kw_only=True)
class PromptArgument(Shape):
    """
    Something to fill in.
    """

    name: str = field(metadata=_is(str))
    title: str | None = field(default=None, metadata=_is(str))
    description: str | None = field(default=None, metadata=_is(str))
    required: bool = field(default=False, metadata=_is(bool))


@define(kw_only=True)
class Prompt(Shape):
    """
    A prompt that a server offers.
    """

    name: str = field(metadata=_is(str))
    title: str | None = field(default=None, metadata=_is(str))
    description: str | None = field(default=None, metadata=_is(str))
    arguments: Sequence[PromptArgument] = field(factory=list, metadata=_is(PromptArgument, many=True))


@define(kw_only=True)
class PromptMessage(Shape):
    """
    One message of a prompt.

    @ivar role: C{user} or C{assistant}.
    """

    role: str = field(metadata=_is(str))
    content: Content = field(metadata=_is(AnyContent))


@define(kw_only=True)
class PromptResult(Shape):
    """
    A prompt, filled in.
    """

    messages: Sequence[PromptMessage] = field(factory=list, metadata=_is(PromptMessage, many=True))
    description: str | None = field(default=None, metadata=_is(str))


@define(kw_only=True)
class Completion(Shape):
    """
    What an argument may be completed to.
    """

    values: Sequence[str] = field(factory=list, metadata=_is(str, many=True))
    total: int | None = field(default=None, metadata=_is(int))
    has_more: bool = field(default=False, metadata=_is(bool))


# ---- on the way


@define(kw_only=True)
class Progress(Shape):
    """
    How far a request has come.
    """

    progress: float = field(metadata=_is(float))
    total: float | None = field(default=None, metadata=_is(float))
    message: str | None = field(default=None, metadata=_is(str))


@define(kw_only=True)
class LogMessage(Shape):
    """
    Something that a server wants to be logged.

    @ivar level: C{debug}, C{info}, C{notice}, C{warning}, C{error}, C{critical}, C{alert} or C{emergency}.
    @ivar data: any JSON.
    """

    level: str = field(metadata=_is(str))
    data: Any = field(default=None, metadata=_is(object))
    logger: str | None = field(default=None, metadata=_is(str))


@frozen
class Page(Generic[_I]):
    """
    A part of a list.

    @ivar next_cursor: where the next one begins; L{None} after the last.
    """

    items: Sequence[_I]
    next_cursor: str | None = None


def page_reader(member: str, kind: type[_S]) -> Callable[[object], Page[_S]]:
    """
    What reads a page out of a list method's result.

    @param member: where the items are.
    """

    def read(result: object) -> Page[_S]:
        if not isinstance(result, dict):
            raise ShapeError("a page is no object")
        items = [kind.from_json(each) for each in _checked(list, result.get(member), member)]
        cursor = result.get("nextCursor")
        return Page(items, None if cursor is None else _checked(str, cursor, "nextCursor"))

    return read
