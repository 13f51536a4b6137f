"""
A client's file system: what an agent may read and write of one directory.
"""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import TYPE_CHECKING

from acp_twisted.errors import InternalError, InvalidParams, ResourceNotFound
from acp_twisted.limits import MiB
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.client.client import AcpClientBuilder

MAX_FILE_BYTES = 32 * MiB
"""A larger file is not read: what is sent must fit into one message."""


class LocalFiles:
    """
    Answers C{fs/read_text_file} and C{fs/write_text_file} from the disk.  What is outside of one directory, also by way
    of a symbolic link, is refused.  It blocks while the disk works.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """
        @param root: the directory; absolute.
        """
        self._root = os.path.realpath(root)

    def serve(self, builder: AcpClientBuilder) -> AcpClientBuilder:
        """
        Add the two handlers to a builder.
        """
        return builder.read_text_file_handler(self.read).write_text_file_handler(self.write)

    def read(self, request: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
        """
        Read a file: all of it, or C{limit} lines from C{line} (counted from 1) on.

        @raise ResourceNotFound: when there is none.
        @raise InvalidParams: when it is outside of the directory, or no file.
        @raise InternalError: when it can't be read, is too large, or is no UTF-8.
        """
        path = self._inside(request.path)
        try:
            text = _content(path).decode("utf-8")
        except FileNotFoundError:
            raise ResourceNotFound("File not found", {"path": request.path}) from None
        except UnicodeDecodeError:
            raise InternalError("The file is no text in UTF-8", {"path": request.path}) from None
        except OSError as error:
            raise _trouble(error, request.path) from None
        if request.line is not None or request.limit is not None:
            first = max((request.line or 1) - 1, 0)
            last = None if request.limit is None else first + request.limit
            text = "".join(islice(_lines(text), first, last))
        return v1.ReadTextFileResponse(content=text)

    def write(self, request: v1.WriteTextFileRequest) -> v1.WriteTextFileResponse:
        """
        Write a file.  It and the directories above it are made if they are missing (1.132).

        @raise InvalidParams: when it is outside of the directory, or no file.
        @raise InternalError: when it can't be written.
        """
        path = self._inside(request.path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            # Not blocking, or a pipe without a reader would keep us; and looked at before it is cut.
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            with open(fd, "wb") as file:
                _regular(fd)
                file.truncate()
                file.write(request.content.encode())
        except OSError as error:
            raise _trouble(error, request.path) from None
        return v1.WriteTextFileResponse()

    def _inside(self, path: str) -> str:
        """
        The real path, if that is inside.
        """
        if not os.path.isabs(path) or "\0" in path:
            raise InvalidParams("The path is not absolute", {"path": path})
        real = os.path.realpath(path)
        if os.path.commonpath([real, self._root]) != self._root or real == self._root:
            raise InvalidParams("The path is outside of the session's directory", {"path": path})
        return real


class _NoFile(OSError):
    pass


def _regular(fd: int) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise _NoFile("it is no regular file")


def _content(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    with open(fd, "rb") as file:
        _regular(fd)
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError(f"it is larger than {MAX_FILE_BYTES} bytes")
    return content


def _lines(text: str) -> list[str]:
    """
    The lines with their ends; only C{\\n} ends one.
    """
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _trouble(error: OSError, path: str) -> InvalidParams | InternalError:
    why = error.strerror or str(error)
    if isinstance(error, (_NoFile, IsADirectoryError, NotADirectoryError)):
        return InvalidParams("The path is no file", {"path": path, "reason": why})
    return InternalError("The file can't be used", {"path": path, "reason": why})
