"""
What a line is, and how one is written: L{acp_twisted.jsonrpc.messages}.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from acp_twisted.errors import AcpError, InvalidParams, InvalidRequest, ParseError
from acp_twisted.jsonrpc.messages import (
    MAX_DEPTH,
    EncodeError,
    ErrorObject,
    Head,
    Malformed,
    Notification,
    Request,
    Response,
    error_bytes,
    id_from_head,
    id_key,
    is_id,
    notification_bytes,
    parse,
    read_head,
    request_bytes,
    result_bytes,
)


def malformed(data: bytes | str) -> Malformed:
    """The line, which must be malformed."""
    message = parse(data.encode() if isinstance(data, str) else data)
    assert isinstance(message, Malformed)
    return message


def response(data: str) -> Response:
    """The line, which must be a response."""
    message = parse(data.encode())
    assert isinstance(message, Response)
    return message


def nested(levels: int) -> Any:
    """So many lists in one another."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# Requests and notifications


def test_request() -> None:
    """An id and a method; members in any order, unknown ones ignored (interop §7.3)."""
    assert parse(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}') == Request(1, "m", {"a": 1})
    assert parse(b' {"params":[1],"x":0,"method":"m","id":"u","jsonrpc":"2.0"} ') == Request("u", "m", [1])


@pytest.mark.parametrize("id", [0, -1, 1, "", "1", "é\x00", 2**53 + 1, 2**63 - 1, -(2**63), None])
def test_legal_ids_are_kept_exactly(id: int | str | None) -> None:
    """B46, B47: falsy ids, ids beyond a double's integers, and null beside a method: kept, with their type."""
    message = parse(json.dumps({"jsonrpc": "2.0", "id": id, "method": "m"}).encode())
    assert message == Request(id, "m")
    assert isinstance(message, Request)
    assert type(message.id) is type(id)


@pytest.mark.parametrize("id", ["1.5", "1.0", "true", "false", "[1]", "{}", str(2**63), str(2**64), "9" * 300, "1e2"])
def test_other_ids_are_refused_with_id_null(id: str) -> None:
    """B47: a fraction, a boolean, a list, an object, an integer beyond int64: -32600, and there is no id to echo."""
    message = malformed(f'{{"jsonrpc":"2.0","id":{id},"method":"m"}}')
    assert isinstance(message.error, InvalidRequest)
    assert (message.id, message.has_id, message.is_notification) == (None, False, False)
    assert message.error.data == {"member": "id", "reason": "must be a 64-bit integer, a string or null"}


def test_notification_is_what_has_no_id() -> None:
    """B46: the key is absent; null is an id."""
    assert parse(b'{"jsonrpc":"2.0","method":"m"}') == Notification("m")


@pytest.mark.parametrize("extra", ["", ',"params":null'])
def test_params_absent_or_null_are_none(extra: str) -> None:
    """Null params count as none (JSONRPC-PARAMS-STRUCTURED)."""
    assert parse(f'{{"jsonrpc":"2.0","id":1,"method":"m"{extra}}}'.encode()) == Request(1, "m", None)


@pytest.mark.parametrize("params", ['"x"', "1", "0", '""', "true", "false", "1.5"])
def test_unstructured_params_are_refused(params: str) -> None:
    """B53: params are an object or an array; the request's own id is answered, a notification is known as one."""
    message = malformed(f'{{"jsonrpc":"2.0","id":4,"method":"m","params":{params}}}')
    assert isinstance(message.error, InvalidRequest)
    assert (message.id, message.has_id, message.error.data["member"]) == (4, True, "params")  # type: ignore[index]
    message = malformed(f'{{"jsonrpc":"2.0","method":"m","params":{params}}}')
    assert (message.has_id, message.is_notification, message.stray) == (False, True, False)


def test_method_is_compared_after_unescaping() -> None:
    """An escaped slash is a slash."""
    assert parse(b'{"jsonrpc":"2.0","id":1,"method":"session\\/n\\u0065w"}') == Request(1, "session/new")


@pytest.mark.parametrize("method", ["1", "null", "[]", "{}", "true"])
def test_method_must_be_a_string(method: str) -> None:
    """A method that is none: -32600 with the id."""
    message = malformed(f'{{"jsonrpc":"2.0","id":"a","method":{method}}}')
    assert (message.error.code, message.id, message.has_id) == (-32600, "a", True)
    assert message.error.data == {"member": "method", "reason": "must be a string"}


@pytest.mark.parametrize("version", ["", '"jsonrpc":"1.0",', '"jsonrpc":2.0,', '"jsonrpc":null,', '"JSONRPC":"2.0",'])
def test_version_is_required_of_requests(version: str) -> None:
    """B40: JSON but not JSON-RPC: -32600 with id 99."""
    message = malformed(f'{{{version}"id":99,"method":"_x/ping"}}')
    assert (message.error.code, message.id, message.has_id, message.stray) == (-32600, 99, True, False)
    assert message.error.data == {"member": "jsonrpc", "reason": 'must be "2.0"'}


def test_method_wins_over_result() -> None:
    """A message with a method is a request, whatever else it holds."""
    assert parse(b'{"jsonrpc":"2.0","id":1,"method":"m","result":{},"error":{}}') == Request(1, "m")


def test_error_data_never_quotes_the_message() -> None:
    """Rule 9: the data names the member at fault, not its value, nor a piece of the line."""
    for line in (
        '{"jsonrpc":"2.0","id":["hunter2"],"method":"m"}',
        '{"jsonrpc":"hunter2","method":"m"}',
        '{"jsonrpc":"2.0","method":"m","params":"hunter2"}',
        'hunter2 {"a":',
        '{"hunter2":hunter2}',
        '"hunter2"',
    ):
        error = malformed(line).error
        assert "hunter2" not in f"{error} {error.data}"


# What is no message


@pytest.mark.parametrize(
    "line",
    [
        b"Loaded config",
        b"\x1b[2K",
        b"",
        b'{"jsonrpc":"2.0","id":4,"method":"_x","params":',
        b'{"jsonrpc":"2.0","id":4,"method":"m"}{}',
        b'{"jsonrpc":"2.0","id":4,"method":"m"}\x00',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":4,"method":"m"}',
    ],
)
def test_bad_json_is_a_parse_error(line: bytes) -> None:
    """B40: -32700 with id null, also when an id can be guessed."""
    message = malformed(line)
    assert isinstance(message.error, ParseError)
    assert (message.id, message.has_id, message.is_json, message.is_object) == (None, False, False, False)
    assert message.stray


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xed\xa0\x80"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"\xc0\xaf"}',
        '{"jsonrpc":"2.0","id":1,"method":"m"}'.encode("utf-16"),
    ],
)
def test_bad_utf8_is_a_parse_error(line: bytes) -> None:
    """B38, B40: UTF-8 is read strictly; bytes are never replaced, and UTF-16 is not guessed."""
    assert isinstance(malformed(line).error, ParseError)


@pytest.mark.parametrize(
    "value",
    ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1" * 5000, '"\\ud800"', '"\\udc00x"', "01", "+1", "'a'"],
)
def test_hostile_scalars_are_parse_errors(value: str) -> None:
    """B42, B43: what has no place in JSON, or in a Python that must write it again, is refused and never crashes."""
    for member in (f'"params":{{"a":{value}}}', f'"id":{value}', f'"x":[{value}]'):
        message = malformed(f'{{"jsonrpc":"2.0","method":"m",{member}}}')
        assert isinstance(message.error, ParseError)


def test_lone_surrogate_in_a_member_name_is_a_parse_error() -> None:
    """B43: names are strings like any other."""
    assert isinstance(malformed('{"jsonrpc":"2.0","method":"m","params":{"\\ud800":1}}').error, ParseError)


def test_large_integer_in_params_is_let_through() -> None:
    """B43: beyond 64 bits an integer is read as the double next to it; it does not end the connection."""
    message = parse(b'{"jsonrpc":"2.0","id":1,"method":"m","params":[18446744073709551616]}')
    assert message == Request(1, "m", [float(2**64)])


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("levels", [2000, 10_000, 100_000])
def test_deep_nesting_is_a_parse_error(opening: str, levels: int) -> None:
    """B43: deep nesting, closed or not, is refused without a RecursionError."""
    closing = "]" if opening == "[" else "}"
    for line in (
        opening * levels,
        '{"jsonrpc":"2.0","id":1,"method":"m","params":' + opening * levels + "1" + closing * levels + "}",
    ):
        assert isinstance(malformed(line).error, ParseError)


@pytest.mark.parametrize("line", ["[]", '[{"jsonrpc":"2.0","id":1,"method":"m"}]', "[1]"])
def test_batches_are_refused_once(line: str) -> None:
    """Protocol §5.1: an array, also the empty one, is one -32600 with id null."""
    message = malformed(line)
    assert isinstance(message.error, InvalidRequest)
    assert (message.id, message.has_id, message.is_json, message.is_object) == (None, False, True, False)
    assert message.error.data == {"reason": "a batch is not supported"}


@pytest.mark.parametrize("line", ['"text"', "42", "null", "true", "1.5"])
def test_json_that_is_no_object(line: str) -> None:
    """B39, Java §6: JSON but no object, the literal null included, is -32600 and stray."""
    message = malformed(line)
    assert isinstance(message.error, InvalidRequest)
    assert (message.is_json, message.is_object, message.stray) == (True, False, True)


@pytest.mark.parametrize(
    "line", ['{"level":"info"}', "{}", '{"level":"info","method":"GET"}', '{"id":[1],"method":"GET"}', '{"params":{}}']
)
def test_log_objects_are_stray(line: str) -> None:
    """B39: an object of neither kind on an agent's stdout is a log line: a client skips it and writes nothing back."""
    message = malformed(line)
    assert (message.is_object, message.has_id, message.stray) == (True, False, True)


def test_log_object_with_an_id_is_stray() -> None:
    """B39: an id alone makes no answer of a log line, though a call of ours may have the same."""
    message = malformed('{"level":"info","id":1,"message":"started"}')
    assert (message.id, message.has_id, message.stray) == (1, True, True)


def test_what_claims_to_be_a_message_is_not_stray() -> None:
    """B40: with a jsonrpc member or a readable id somebody may wait for the answer."""
    assert not malformed('{"jsonrpc":"2.0"}').stray
    assert not malformed('{"jsonrpc":"2.0","method":7}').stray
    assert not malformed('{"id":1,"method":"m"}').stray


# Responses


def test_response_with_a_result() -> None:
    """Any JSON is a result, null included (interop §7.4)."""
    assert response('{"jsonrpc":"2.0","id":1,"result":{}}') == Response(1, {}, None, True)
    assert response('{"jsonrpc":"2.0","result":null,"id":"a"}') == Response("a", None, None, True)


def test_response_with_an_error() -> None:
    """Code, message and data as they came."""
    assert response('{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m","data":[1]}}') == Response(
        1, error=ErrorObject(-32000, "m", [1])
    )


def test_response_without_version_is_taken() -> None:
    """Interop §5: an answer is not lost for a missing jsonrpc member."""
    assert response('{"id":1,"result":5}') == Response(1, 5, None, True)


def test_error_with_id_null_is_a_response() -> None:
    """B46: the peer's answer to what it could not read; it has no id, and matches no request."""
    for line in (
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}',
        '{"error":{"code":-32700,"message":"m"}}',
    ):
        assert response(line) == Response(None, error=ErrorObject(-32700, "m"))


def test_error_message_may_be_missing_or_odd() -> None:
    """An error counts by its code; a message that is missing or no string is replaced, odd data kept."""
    for odd in ("", ',"message":null', ',"message":[1]'):
        error = response(f'{{"id":1,"error":{{"code":5{odd},"data":false}}}}').error
        assert error == ErrorObject(5, "the peer gave no message", False)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"jsonrpc":"2.0","id":1}', "neither a result nor an error"),
        ('{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}', "both a result and an error"),
        ('{"jsonrpc":"2.0","id":1,"result":0,"error":false}', "both a result and an error"),
        ('{"jsonrpc":"2.0","id":1,"error":null}', "error is no object"),
        ('{"jsonrpc":"2.0","id":1,"error":"hunter2"}', "error is no object"),
        ('{"jsonrpc":"2.0","id":1,"error":{"message":"hunter2"}}', "no integer code"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":"hunter2"}}', "no integer code"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":true}}', "no integer code"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":1.5}}', "no integer code"),
    ],
)
def test_broken_response_still_reaches_its_caller(line: str, problem: str) -> None:
    """JSONRPC-RESULT-XOR-ERROR: the caller gets a clear error, by its id, and no words of the message."""
    message = response(line)
    assert (message.id, message.has_result, message.result, message.error) == (1, False, None, None)
    assert problem in message.problem
    assert "hunter2" not in message.problem


def test_null_written_for_the_absent_member_is_tolerated() -> None:
    """Libraries that write both members, one of them null, mean the other."""
    assert response('{"id":1,"result":{"a":1},"error":null}') == Response(1, {"a": 1}, None, True)
    assert response('{"id":1,"result":null,"error":{"code":1,"message":"m"}}') == Response(1, error=ErrorObject(1, "m"))
    assert response('{"id":1,"method":null,"result":2}') == Response(1, 2, None, True)


@pytest.mark.parametrize("id", ["1.0", "true", "[1]", "{}", str(2**64)])
def test_response_ids_are_never_bent(id: str) -> None:
    """B47: 1.0 or true does not answer the request 1; such a response matches nothing and is not answered."""
    message = response(f'{{"jsonrpc":"2.0","id":{id},"result":{{}}}}')
    assert (message.id, message.has_result) == (None, False)
    assert "id" in message.problem


def test_id_keys_stay_apart() -> None:
    """B47: a dict takes 1, 1.0 and True for one key; the keys of ids are all different, and hashable."""
    ids: list[object] = [1, "1", None, True, 1.0, 0, False, "", "None", "True", [1], {}]
    assert len({id_key(value) for value in ids}) == len(ids)
    assert id_key(1) == id_key(1)


def test_is_id() -> None:
    """What a request's id may be."""
    assert all(is_id(value) for value in (0, -(2**63), 2**63 - 1, "", None))
    others: list[object] = [True, 1.0, 2**63, -(2**63) - 1, [], {}]
    assert not any(is_id(other) for other in others)


# Encoding


def test_encoded_forms() -> None:
    """The bytes of the four messages: no line end, members in a readable order, absent what is None."""
    assert request_bytes(1, "m", {"a": "é"}) == '{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"é"}}'.encode()
    assert request_bytes("x", "m") == b'{"jsonrpc":"2.0","id":"x","method":"m"}'
    assert notification_bytes("m", [None]) == b'{"jsonrpc":"2.0","method":"m","params":[null]}'
    assert notification_bytes("m") == b'{"jsonrpc":"2.0","method":"m"}'
    assert result_bytes(None, None) == b'{"jsonrpc":"2.0","id":null,"result":null}'
    assert error_bytes(2, AcpError(5, "m")) == b'{"jsonrpc":"2.0","id":2,"error":{"code":5,"message":"m"}}'
    assert error_bytes(2, InvalidParams(data={"at": []})).endswith(b'"message":"Invalid params","data":{"at":[]}}}')


def test_line_ends_are_escaped() -> None:
    """Protocol §5.1: no raw line feed stands in a message."""
    assert b"\n" not in notification_bytes("m", {"a\n": "\r\n\u2028\x85"})


class _Colour(str, Enum):
    RED = "red"


@dataclass
class _Data:
    value: float


def _cycle() -> list[Any]:
    cycle: list[Any] = [1]
    cycle.append({"again": cycle})
    return cycle


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        object(),
        b"bytes",
        float("nan"),
        [None, {"a": (float("inf"),)}],
        -float("inf"),
        "\ud800",
        {"\udfff": 1},
        2**64,
        -(2**63) - 1,
        {1: 2},
        {None: 2},
        _Data(float("nan")),
        _cycle(),
        nested(MAX_DEPTH),
        nested(5000),
        [nested(300), float("nan")],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_json_text_cannot_be_encoded(value: object) -> None:
    """B42, B59: one kind of exception for every failure, so that the request can still be answered with -32603."""
    with pytest.raises(EncodeError):
        result_bytes(1, value)
    with pytest.raises(EncodeError):
        request_bytes(1, "m", value)
    with pytest.raises(EncodeError):
        notification_bytes("m", value)


def test_encode_error_is_a_value_error_that_quotes_nothing() -> None:
    """Rule 9: the text names the type."""
    with pytest.raises(ValueError, match="type set") as caught:
        result_bytes(1, {"a": {"hunter2"}})
    assert "hunter2" not in str(caught.value)


def test_null_is_not_taken_for_a_number_that_is_not_finite() -> None:
    """B42: None and the word null pass; floats that are finite pass."""
    value = {"a": None, "b": "null", "c": 1.5, "d": [None, 1e308]}
    assert parse(result_bytes(1, value)) == Response(1, value, None, True)


def test_string_enums_are_strings() -> None:
    """As values and as member names, at any depth."""
    assert result_bytes(1, _Colour.RED).endswith(b'"result":"red"}')
    assert result_bytes(1, {_Colour.RED: 1}).endswith(b'"result":{"red":1}}')


@pytest.mark.parametrize("levels", [250, 255, 900, MAX_DEPTH - 1])
def test_what_decodes_encodes_again(levels: int) -> None:
    """B43: whatever depth is read can be written, although the encoder proper stops at 254 levels."""
    value = nested(levels)
    encoded = result_bytes(1, value)
    assert encoded == b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * levels + b"1" + b"]" * levels + b"}"
    message = parse(encoded)
    assert isinstance(message, Response)
    assert result_bytes(1, message.result) == encoded


def test_deep_and_wide_values_are_written_like_shallow_ones() -> None:
    """The slow encoder writes what the quick one writes."""
    value = {"a": [1, "é\n", None, True, 1.5, {}, [], ()], "b": {"c": {"d": "e"}, "f": nested(300)}}
    assert json.loads(result_bytes(1, value)) == json.loads(json.dumps({"jsonrpc": "2.0", "id": 1, "result": value}))


def test_errors_can_always_be_encoded() -> None:
    """B59, rule 1: the last answer never fails: bad data is dropped, a bad message cleaned, a bad code replaced."""
    error = AcpError(7, "bad \ud800", data={1, 2})
    assert json.loads(error_bytes(1, error))["error"] == {"code": 7, "message": "bad ?"}
    assert json.loads(error_bytes(1, AcpError(2**70, "m", float("nan"))))["error"] == {"code": -32603, "message": "m"}
    assert json.loads(error_bytes(1, AcpError(True, "m")))["error"] == {"code": -32603, "message": "m"}
    assert json.loads(error_bytes(1, AcpError(1, None)))["error"] == {"code": 1, "message": "None"}  # type: ignore[arg-type]


# Heads of oversized messages


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"x":"', Head(True, 5, "m")),
        (b'{"id" : "a\\u00e9\\"" , "params":[', Head(True, 'aé"')),
        (b'{"params":{"id":7,"x":"{\\"id\\":8"},"q":[[{"id":1}]],"id":null,"z":', Head(True, None)),
        (b'{"x":"\\\\","id":3,', Head(True, 3)),
        (b'{"x":"\\"id\\":4,","y', Head()),
        (b'{"id\\u0000":1,"i\\u0064":2,', Head(True, 2)),
        (b'{"params":{"id":7', Head()),
        (b'{"id":12', Head()),
        (b'{"id":"ab', Head()),
        (b'{"id":12}', Head(True, 12)),
        (b'{"id":1.0,"method":"m",', Head(method="m")),
        (b'{"id":true,', Head()),
        (b'{"id":[1],"method":{},', Head()),
        (b'{"id":nonsense,"method":"m",', Head()),
        (b'[{"id":1},', Head()),
        (b'"id":1,', Head()),
        (b'{"a" "id":1,', Head()),
        (b'{1:2,"id":1,', Head(True, 1)),
        (b'{"a":1 "id":1,', Head()),
        (b"{}", Head()),
        (b"", Head()),
        (b"\xff\xfe", Head()),
        (b'{"jsonrpc":"2.0","id":5,"result":{"content":"', Head(True, 5, None, True)),
        (b'{"error":{"code":1},"id":5,', Head(True, 5, None, True)),
        (b'{"method":"m","params":{"result":1},"result":2,"id":5,', Head(True, 5, "m")),
    ],
)
def test_head(head: bytes, expected: Head) -> None:
    """B34: the outermost id is read where it can be; nested members and strings that look like it are not believed."""
    assert read_head(head) == expected
    assert id_from_head(head) == (expected.has_id, expected.id)
