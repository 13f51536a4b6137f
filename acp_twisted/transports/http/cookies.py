"""
Cookies of one connection: the standard library's jar, which wants requests and responses of its own kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from email.message import Message
from http.cookiejar import CookieJar
from typing import Any, cast
from urllib.request import Request


class _Answer:
    """
    As much of a response as a jar looks at.
    """

    def __init__(self, values: Iterable[bytes]) -> None:
        self._message = Message()
        for value in values:
            self._message["Set-Cookie"] = value.decode("latin-1")

    def info(self) -> Message:
        """
        The headers.
        """
        return self._message


class Cookies:
    """
    Keeps what one server sets, and shows it again (protocol 5.2: for the connection's life).
    """

    def __init__(self, url: str, jar: CookieJar | None = None) -> None:
        """
        @param url: of every request, C{http} or C{https}.
        @param jar: where they are kept.
        """
        self._url = url
        self._jar = CookieJar() if jar is None else jar

    def store(self, values: Iterable[bytes]) -> None:
        """
        Take the C{Set-Cookie} headers of an answer.
        """
        listed = list(values)
        if listed:
            self._jar.extract_cookies(cast(Any, _Answer(listed)), Request(self._url))

    def headers(self) -> list[tuple[bytes, bytes]]:
        """
        The header for the next request; none when there are no cookies.
        """
        request = Request(self._url)
        self._jar.add_cookie_header(request)
        value = request.get_header("Cookie")
        return [] if value is None else [(b"Cookie", value.encode("latin-1"))]
