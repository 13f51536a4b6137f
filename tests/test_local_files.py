"""A client's files: several directories, no way out of them, and what a write makes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from halves import ClientHalf

from acp_twisted import AcpClient, InternalError, InvalidParams, ResourceNotFound
from acp_twisted.client import files as files_module
from acp_twisted.client.files import LocalFiles
from acp_twisted.client.roots import Roots
from acp_twisted.schema import v1


def read(files: LocalFiles, path: object, **more: Any) -> str:
    """Read a file as an agent does."""
    return files.read(v1.ReadTextFileRequest(session_id="s", path=str(path), **more)).content


def write(files: LocalFiles, path: object, content: str = "x") -> None:
    """Write one."""
    files.write(v1.WriteTextFileRequest(session_id="s", path=str(path), content=content))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two roots, and a place beside them with a secret."""
    one, two, outside = (tmp_path / name for name in ("one", "two", "outside"))
    for place in (one, two, outside):
        place.mkdir()
    (outside / "secret").write_text("secret")
    return one, two, outside


def test_several_roots(places: tuple[Path, Path, Path]) -> None:
    """1.47: each is as good as the first; a link from one to the other stays inside."""
    one, two, _ = places
    files = LocalFiles(one, two)
    write(files, one / "f", "1")
    write(files, two / "a/b/f", "2")
    (one / "link").symlink_to(two)
    assert (read(files, one / "f"), read(files, one / "link/a/b/f")) == ("1", "2")
    write(files, one / "link/new", "3")
    assert (two / "new").read_text() == "3"


@pytest.mark.parametrize("roots", [(), ("relative",)])
def test_roots_are_absolute_and_some(roots: tuple[str, ...]) -> None:
    """A mistake of the program, told when the service is made."""
    with pytest.raises(ValueError, match=r"absolute|at least one"):
        LocalFiles(*roots)


def test_the_root_of_all(places: tuple[Path, Path, Path]) -> None:
    """Who wants no bounds says so."""
    assert read(LocalFiles("/"), places[2] / "secret") == "secret"
    assert Roots("/").resolve(os.path.realpath(places[0])) == ("/", os.path.realpath(places[0]))


@pytest.mark.parametrize(
    "way",
    [
        "{one}/../outside/{name}",
        "{one}/dir/../../outside/{name}",
        "{one}/out/{name}",
        "{one}/dir/up/outside/{name}",
        "{one}/dangling",
        "{one}/chain",
        "{outside}/{name}",
        "/{name}",
        "{one}",
        "{one}/",
        "{one}/.",
        "{one}x/{name}",
    ],
)
@pytest.mark.parametrize("name", ["secret", "new"])
def test_no_way_leads_out(places: tuple[Path, Path, Path], way: str, name: str) -> None:
    """By C{..}, by links to directories, by links that lead to what is to be made, by chains of links (-32602)."""
    one, _, outside = places
    (one / "dir").mkdir()
    (one / "out").symlink_to(outside)
    (one / "dir/up").symlink_to("../..")
    (one / "dangling").symlink_to(outside / name)
    (one / "chain").symlink_to("dangling")
    path = way.format(one=one, outside=outside, name=name)
    files = LocalFiles(one)
    for use in (read, write):
        with pytest.raises(InvalidParams) as refused:
            use(files, path)
        assert refused.value.data == {"path": path}
    assert [each.name for each in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"


@pytest.mark.parametrize("path", ["f", "", "/w/\0", "/w/\ud800", "/" + "x" * 5000])
def test_what_is_no_path_is_refused(places: tuple[Path, Path, Path], path: str) -> None:
    """1.01; and what no file system can name."""
    for use in (read, write):
        with pytest.raises((InvalidParams, InternalError)):
            use(LocalFiles(places[0]), path)


@pytest.mark.parametrize("use", [read, write])
@pytest.mark.parametrize("where", ["directory", "file", "root"])
def test_a_link_that_is_put_in_the_way_is_not_followed(
    places: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, use: Callable[..., Any], where: str
) -> None:
    """The race between the check and the use: what was a directory when it was checked is a link out when opened."""
    one, _, outside = places
    files = LocalFiles(one)
    (one / "dir").mkdir()
    resolve = Roots.resolve

    def resolve_then_swap(roots: Roots, path: str) -> tuple[str, str]:
        resolved = resolve(roots, path)
        if where == "directory":
            (one / "dir").rmdir()
            (one / "dir").symlink_to(outside)
        elif where == "file":
            (one / "dir/secret").symlink_to(outside / "secret")
        else:
            (one / "dir").rmdir()
            one.rmdir()
            one.symlink_to(outside)
        return resolved

    monkeypatch.setattr(Roots, "resolve", resolve_then_swap)
    with pytest.raises((InvalidParams, InternalError)):
        use(files, one / "dir/secret")
    assert (outside / "secret").read_text() == "secret"
    assert [each.name for each in outside.iterdir()] == ["secret"]


def test_a_missing_file_is_not_found(places: tuple[Path, Path, Path]) -> None:
    """-32002, with the path as it was given, and as a URI; also below a directory that is missing."""
    for path in (places[0] / "a b", places[0] / "no/such"):
        with pytest.raises(ResourceNotFound) as missing:
            read(LocalFiles(places[0]), path)
        assert (missing.value.code, missing.value.data) == (-32002, {"path": str(path), "uri": path.as_uri()})
    assert list(places[0].iterdir()) == []


def test_below_a_file_is_nothing(places: tuple[Path, Path, Path]) -> None:
    """A file is no directory, for reading or for writing."""
    (places[0] / "f").write_text("x")
    for use in (read, write):
        with pytest.raises(InvalidParams):
            use(LocalFiles(places[0]), places[0] / "f/g")


def test_a_text_that_can_not_be_written_cuts_nothing(places: tuple[Path, Path, Path]) -> None:
    """Half a surrogate pair is no UTF-8; the file stays as it was."""
    files = LocalFiles(places[0])
    write(files, places[0] / "f", "before")
    with pytest.raises(InvalidParams):
        write(files, places[0] / "f", "\ud800")
    assert read(files, places[0] / "f") == "before"


def test_a_file_keeps_its_mode(places: tuple[Path, Path, Path]) -> None:
    """A write does not put another file in its place."""
    path = places[0] / "f"
    path.write_text("x")
    path.chmod(0o750)
    write(LocalFiles(places[0]), path, "longer")
    assert (path.stat().st_mode & 0o777, path.read_text()) == (0o750, "longer")


def test_a_file_that_is_too_large_is_not_read(places: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 6."""
    monkeypatch.setattr(files_module, "MAX_FILE_BYTES", 3)
    (places[0] / "f").write_text("123")
    (places[0] / "g").write_text("1234")
    assert read(LocalFiles(places[0]), places[0] / "f") == "123"
    with pytest.raises(InternalError):
        read(LocalFiles(places[0]), places[0] / "g")


def test_nothing_is_left_open(places: tuple[Path, Path, Path]) -> None:
    """Descriptors, on every way out."""
    one = places[0]
    files = LocalFiles(one)
    (one / "dir").mkdir()
    os.mkfifo(one / "pipe")
    before = os.listdir("/proc/self/fd")
    write(files, one / "a/b/f")
    read(files, one / "a/b/f")
    for name in ("dir", "pipe", "none", "a/none/f", "a/b/f/g"):
        with pytest.raises((InvalidParams, InternalError, ResourceNotFound)):
            read(files, one / name)
    for name in ("dir", "pipe", "a/b/f/g"):
        with pytest.raises((InvalidParams, InternalError)):
            write(files, one / name)
    assert os.listdir("/proc/self/fd") == before


def test_the_capabilities_follow(places: tuple[Path, Path, Path]) -> None:
    """Over the wire: both are advertised, and answered."""
    one = places[0]
    half = ClientHalf(LocalFiles(one).serve(AcpClient.builder()).build(), opened=False)
    half.connection.initialize()
    assert half.take()[0]["params"]["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}
    path = str(one / "f")
    half.send(
        {"id": 1, "method": "fs/write_text_file", "params": {"sessionId": "s", "path": path, "content": "a\nb\n"}},
        {"id": 2, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": path, "line": 2, "limit": 1}},
    )
    assert half.take() == [{"id": 1, "result": {}}, {"id": 2, "result": {"content": "b\n"}}]


def test_long_paths_and_long_chains_are_refused_at_once(places: tuple[Path, Path, Path]) -> None:
    """To resolve half a million names would take hours, and a chain of links more than the stack has."""
    one = places[0]
    files = LocalFiles(one)
    for endless in (f"{one}{'/b' * 500_000}", f"{one}/{'b' * 5000}", f"{one}/{'../' * 500_000}"):
        with pytest.raises(InvalidParams, match="too long"):
            files.read(v1.ReadTextFileRequest(session_id="s", path=endless))
        with pytest.raises(InvalidParams, match="too long"):
            files.write(v1.WriteTextFileRequest(session_id="s", path=endless, content=""))
    target = one / "f"
    target.write_text("x")
    for number in range(3000):
        link = one / f"l{number}"
        link.symlink_to(target)
        target = link
    with pytest.raises(InvalidParams, match="The path is none"):
        read(files, target)


def test_any_number_of_a_line_will_do(places: tuple[Path, Path, Path]) -> None:
    """Also one that no file has."""
    one = places[0]
    (one / "f").write_text("a\nb\n")
    for line, limit, expected in ((2**64, 2**64, ""), (1, 2**64, "a\nb\n"), (2**64, 1, ""), (2, 0, "")):
        request = v1.ReadTextFileRequest(session_id="s", path=str(one / "f"), line=line, limit=limit)
        assert LocalFiles(one).read(request).content == expected
