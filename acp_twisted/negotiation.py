"""
Which version of the protocol a connection speaks: the rules of C{initialize}, and nothing that sends or receives.

The client asks for the highest version that it speaks, in that version's words.  An agent of version 1 answers with
that version or with its own latest (1.14).  An agent that speaks version 2 picks the highest of its versions that is
not above the one asked for, and refuses with -32022 when there is none.  Nothing is translated after that.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from acp_twisted.errors import InvalidParams, InvalidRequest, UnsupportedVersion

UNKNOWN: Final = {"name": "unknown", "version": "unknown"}
"""What is known of a client that does not say who it is, though its version has it say so."""


def choose(supported: Collection[int], requested: int) -> int:
    """
    The version that an agent answers with.

    @param supported: the versions that it speaks, at least one.
    @param requested: what the client asks for.
    @raise UnsupportedVersion: when there is none for this client; its data says what there is.
    """
    if set(supported) == {1}:
        return 1
    fitting = [each for each in supported if each <= requested]
    if not fitting:
        raise UnsupportedVersion(data={"requested": requested, "supported": sorted(supported)})
    return max(fitting)


def requested_version(params: object) -> int:
    """
    What the params of C{initialize} ask for.

    @raise InvalidParams: when that is no version.
    """
    version = params.get("protocolVersion") if isinstance(params, dict) else None
    if type(version) is float and version.is_integer():
        version = int(version)
    if type(version) is not int or not 0 <= version <= 65535:
        raise InvalidParams(data=[{"path": "$.protocolVersion", "reason": "must be a whole number up to 65535"}])
    return version


def check_id(request_id: object, august_draft: bool) -> None:
    """
    Hold a request of version 2 to what its id may be: the draft of August 2026 had null, as version 1 has.

    @raise InvalidRequest: when it is null, and must not be.
    """
    if request_id is None and not august_draft:
        raise InvalidRequest("The id of a request is a string or an integer")


def in_words_of(selected: int, params: dict[str, Any]) -> dict[str, Any]:
    """
    The params of C{initialize} in the words of the version that was selected, when the client asked for a higher one.
    Of what the other version has too, that is carried over which means the same.
    """
    return _in_first_words(params) if selected == 1 else _in_second_words(params)


def _in_second_words(params: dict[str, Any]) -> dict[str, Any]:
    info = params.get("info")
    capabilities = params.get("capabilities")
    said = {"protocolVersion": params["protocolVersion"], "info": info if _is_info(info) else UNKNOWN}
    if isinstance(capabilities, dict):
        said["capabilities"] = capabilities
    return _with_meta(said, params)


def _in_first_words(params: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"protocolVersion": params["protocolVersion"]}
    info = params.get("clientInfo", params.get("info"))
    if _is_info(info):
        said["clientInfo"] = info
    if isinstance(params.get("clientCapabilities"), dict):
        said["clientCapabilities"] = params["clientCapabilities"]  # it speaks both versions at once
    elif isinstance(params.get("capabilities"), dict):
        said["clientCapabilities"] = _first_capabilities(params["capabilities"])
    return _with_meta(said, params)


def _first_capabilities(second: dict[str, Any]) -> dict[str, Any]:
    """
    Capabilities of version 2 as those of version 1: never files or terminals, which version 2 has not.
    """
    auth = second.get("auth")
    terminal = isinstance(auth, dict) and isinstance(auth.get("terminal"), dict)
    first: dict[str, Any] = {
        "auth": {"terminal": terminal},
        # Every client of version 2 has settings that are on or off.
        "session": {"configOptions": {"boolean": {}}},
    }
    for name in ("elicitation", "_meta"):
        if isinstance(second.get(name), dict):
            first[name] = second[name]
    return first


def _is_info(info: object) -> bool:
    return isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)


def _with_meta(said: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    if isinstance(params.get("_meta"), dict):
        said["_meta"] = params["_meta"]
    return said
