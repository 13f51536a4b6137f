"""
Whether what a user filled in fits the form that an agent asked him to fill in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from acp_twisted.schema.values import Problem


def problems_of(form: Any, content: Mapping[str, Any] | None, *, patterns: bool = False) -> list[Problem]:
    """
    What does not fit.  A field of a kind that nobody here knows fits, and so does one that the form does not have.

    @param form: a L{v1.ElicitationSchema}.
    @param content: the values by the names of the fields.
    @param patterns: look at the expressions that texts must match too.  Only for forms of one's own: another's may be
        made to take for ever.
    @return: where and why, never the values; nothing, if all is well.
    """
    values = content if content is not None else {}
    if not isinstance(values, Mapping):
        return [Problem("$", "should be an object")]
    found = [Problem(f"$.{name}", "is missing") for name in form.required or () if name not in values]
    for name, field in form.properties.items():
        if name in values:
            reason = _reason(field, values[name], patterns)
            if reason:
                found.append(Problem(f"$.{name}", reason))
    return found


def defaults_of(form: Any) -> dict[str, Any]:
    """
    What a form begins with: the defaults of its fields, where they have one that fits.
    """
    found = {}
    for name, field in form.properties.items():
        default = getattr(field, "default", None)
        value = list(default) if isinstance(default, tuple) else default
        if value is not None and not _reason(field, value, False):
            found[name] = value
    return found


def _reason(field: Any, value: Any, patterns: bool) -> str:
    check = _CHECKS.get((getattr(field, "TAG", None) or ("", ""))[1])
    return "" if check is None else check(field, value, patterns)


def _string(field: Any, value: Any, patterns: bool) -> str:
    if not isinstance(value, str):
        return "should be a string"
    offered = [each.const for each in field.one_of] if field.one_of is not None else field.enum
    if offered is not None and value not in offered:
        return "is none of what is offered"
    if field.min_length is not None and len(value) < field.min_length:
        return f"is shorter than {field.min_length}"
    if field.max_length is not None and len(value) > field.max_length:
        return f"is longer than {field.max_length}"
    if patterns and field.pattern is not None and not _matches(field.pattern, value):
        return "does not match the pattern"
    known = _FORMATS.get(field.format)
    return "" if known is None or known(value) else f"is no {field.format}"


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # JSON schema has expressions that Python has not, such as \p{L}: nobody here can tell
        return True


def _number(field: Any, value: Any, _: bool) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "should be a number"
    if field.minimum is not None and value < field.minimum:
        return f"is less than {field.minimum:g}"
    if field.maximum is not None and value > field.maximum:
        return f"is more than {field.maximum:g}"
    return ""


def _integer(field: Any, value: Any, patterns: bool) -> str:
    if isinstance(value, float) and not value.is_integer():
        return "should be a whole number"
    return _number(field, value, patterns)


def _boolean(_: Any, value: Any, __: bool) -> str:
    return "" if isinstance(value, bool) else "should be true or false"


def _several(field: Any, value: Any, _: bool) -> str:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        return "should be a list of strings"
    titled = getattr(field.items, "any_of", None)
    offered = [each.const for each in titled] if titled is not None else getattr(field.items, "enum", None)
    if offered is not None and not set(value) <= set(offered):
        return "has something that is not offered"
    if field.min_items is not None and len(value) < field.min_items:
        return f"has less than {field.min_items} items"
    if field.max_items is not None and len(value) > field.max_items:
        return f"has more than {field.max_items} items"
    return ""


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return bool(parse(text))
        except ValueError:
            return False

    return check


def _date_time(text: str) -> bool:
    # The Z, and any number of digits behind the point, are understood since Python 3.11.
    plain = re.sub(r"\.\d+", "", re.sub("[zZ]$", "+00:00", text))
    moment = datetime.fromisoformat(plain)
    return "t" in text.lower() and moment.tzinfo is not None


_CHECKS: Final[dict[str, Callable[[Any, Any, bool], str]]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "array": _several,
}
_FORMATS: Final[dict[str | None, Callable[[str], bool]]] = {
    "email": lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None,
    "uri": _parses(lambda text: urlsplit(text).scheme and not re.search(r"\s", text)),
    "date": _parses(lambda text: date.fromisoformat(text) and re.fullmatch(r"\d{4}-\d\d-\d\d", text)),
    "date-time": _parses(_date_time),
}
