"""
The directories that an agent may work in, and how a path is held to them.
"""

from __future__ import annotations

import os
from typing import Final

from acp_twisted.errors import InvalidParams

MAX_PATH_BYTES: Final = 4096
"""A longer path is refused: the system takes none, and to resolve one takes a time that grows with its square."""


class Roots:
    """
    Some directories.  A path is inside if what it leads to is, every symbolic link followed, also where its last part
    does not exist yet.  A hard link can't be told from the file itself.

    @ivar paths: the real paths of the directories.
    """

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        """
        @param paths: absolute; at least one.
        @raise ValueError: when there is none, or one is not absolute.
        """
        if not paths:
            raise ValueError("at least one directory is needed")
        for path in paths:
            if not os.path.isabs(path):
                raise ValueError(f"{os.fspath(path)!r} is not absolute")
        self.paths = tuple(os.path.realpath(path) for path in paths)

    def resolve(self, path: str, what: str = "path") -> tuple[str, str]:
        """
        Where a path of the agent's leads.

        @param what: what the agent calls it, for the error.
        @return: the root that it is in, and the real path.
        @raise InvalidParams: when it is not absolute (1.01), is no path, is too long, or leads
            outside.
        """
        if not os.path.isabs(path):
            raise InvalidParams("The path is not absolute", {what: path})
        try:
            if len(os.fsencode(path)) > MAX_PATH_BYTES:
                raise InvalidParams("The path is too long", {"maxBytes": MAX_PATH_BYTES})
            real = os.path.realpath(path)
        except (OSError, ValueError, RecursionError):  # a lone surrogate, a NUL, a chain of links without end
            raise InvalidParams("The path is none", {what: path}) from None
        for root in self.paths:
            if os.path.commonpath([real, root]) == root:
                return root, real
        raise InvalidParams("The path is outside of the directories of this client", {what: path})
