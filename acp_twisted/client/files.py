"""
A client's file system: what an agent may read and write of some directories.  POSIX only.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from acp_twisted.client.roots import Roots
from acp_twisted.errors import InternalError, InvalidParams, ResourceNotFound
from acp_twisted.limits import MiB
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.client.client import AcpClientBuilder

MAX_FILE_BYTES = 32 * MiB
"""A larger file is not read: what is sent must fit into one message."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalFiles:
    """
    Answers C{fs/read_text_file} and C{fs/write_text_file} from the disk.  What is outside of its directories is
    refused, also by way of C{..} or of a symbolic link; see L{Roots}.  It blocks while the disk works.

    The path is resolved first, then checked, and then opened one directory after the other without following a link, so
    what somebody puts in its way between the two is refused and not followed.  What it can't know of are hard links,
    and file systems that are mounted inside.
    """

    def __init__(self, *roots: str | os.PathLike[str]) -> None:
        """
        @param roots: the directories; absolute.
        """
        self._roots = Roots(*roots)

    def serve(self, builder: AcpClientBuilder) -> AcpClientBuilder:
        """
        Add the two handlers to a builder.
        """
        return builder.read_text_file_handler(self.read).write_text_file_handler(self.write)

    def read(self, request: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
        """
        Read a file: all of it, or C{limit} lines from C{line} (counted from 1) on.

        @raise ResourceNotFound: when there is none.
        @raise InvalidParams: when it is outside of the directories, or no file.
        @raise InternalError: when it can't be read, is too large, or is no UTF-8.
        """
        try:
            with _open(*self._inside(request.path), os.O_RDONLY) as file:
                text = _content(file).decode("utf-8")
        except FileNotFoundError:
            uri = Path(request.path).as_uri()
            raise ResourceNotFound("File not found", {"path": request.path, "uri": uri}) from None
        except UnicodeDecodeError:
            raise InternalError("The file is no text in UTF-8", {"path": request.path}) from None
        except OSError as error:
            raise _trouble(error, request.path) from None
        if request.line is not None or request.limit is not None:
            first = max((request.line or 1) - 1, 0)
            last = None if request.limit is None else first + request.limit
            text = "".join(_lines(text)[first:last])
        return v1.ReadTextFileResponse(content=text)

    def write(self, request: v1.WriteTextFileRequest) -> v1.WriteTextFileResponse:
        """
        Write a file.  It and the directories above it are made if they are missing (1.132).

        @raise InvalidParams: when it is outside of the directories, no file, or its text can't be written in UTF-8.
        @raise InternalError: when it can't be written.
        """
        try:
            content = request.content.encode()
        except UnicodeEncodeError:
            raise InvalidParams("The text is none", {"path": request.path}) from None
        try:
            with _open(*self._inside(request.path), os.O_WRONLY | os.O_CREAT) as file:
                file.truncate()
                file.write(content)
        except OSError as error:
            raise _trouble(error, request.path) from None
        return v1.WriteTextFileResponse()

    def _inside(self, path: str) -> tuple[str, str]:
        """
        The root, and the way from there.
        """
        root, real = self._roots.resolve(path)
        if real == root:
            raise InvalidParams("The path is no file", {"path": path})
        return root, os.path.relpath(real, root)


class _NoFile(OSError):
    pass


def _regular(fd: int) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise _NoFile("it is no regular file")


def _open(root: str, way: str, flags: int) -> BinaryIO:
    """
    Open a regular file, following no link on the way.

    @raise OSError: also where a link, a pipe or a directory is in the way.
    """
    *names, last = way.split(os.sep)
    made = bool(flags & os.O_CREAT)
    directory = os.open(root, _DIRECTORY)
    try:
        for name in names:
            below = _enter(name, directory, made)
            os.close(directory)
            directory = below
        # Not blocking, or a pipe without a reader would keep us; and looked at before it is cut.
        fd = os.open(last, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        _regular(fd)
    except OSError:
        os.close(fd)
        raise
    return os.fdopen(fd, "wb" if made else "rb")


def _enter(name: str, directory: int, made: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        if not made:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
    return os.open(name, _DIRECTORY, dir_fd=directory)


def _content(file: BinaryIO) -> bytes:
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
