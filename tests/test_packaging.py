"""
What users get: the wheel and the source distribution, built as a release builds them, and used outside of the checkout.

Nothing here needs a network: the build uses the installed setuptools, and the new environment borrows the libraries of
the one that runs the tests, but not this package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest
from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
NOT_SOURCE = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "build", "dist", "_build", "node_modules", "*.pyc", "dropin.cache"
)


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program as a user would, with no trace of the checkout in its environment; returns all that it printed."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV", "PYTEST"))
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout


@frozen
class Built:
    """
    A finished build.

    @ivar files: the names in the wheel.
    @ivar source: the names in the source distribution, without its top folder.
    """

    wheel: Path
    files: frozenset[str]
    source: frozenset[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The source distribution of a copy of the checkout, and the wheel made from that, not from the checkout."""
    folder = tmp_path_factory.mktemp("build")
    copy = folder / "checkout"
    shutil.copytree(ROOT, copy, ignore=NOT_SOURCE)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", copy, cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        files = frozenset(archive.namelist())
    with tarfile.open(sdist) as tar:
        source = frozenset(PurePosixPath(*PurePosixPath(name).parts[1:]).as_posix() for name in tar.getnames())
    return Built(wheel, files, source)


@frozen
class Installed:
    """
    A new environment with the wheel in it.

    @ivar outside: an empty folder to work in.
    """

    programs: Path
    outside: Path

    def python(self, *arguments: str) -> str:
        """Run its Python there."""
        return run(self.programs / "python", *arguments, cwd=self.outside)

    def twistd(self, *arguments: str) -> str:
        """Run Twisted's own program there; it belongs to the borrowed libraries, so it is started by name."""
        return self.python("-c", "from twisted.scripts.twistd import run; run()", *arguments)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in a virtual environment of its own, outside of the checkout."""
    folder = tmp_path_factory.mktemp("install")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    run(*pip, "install", "--no-index", "--no-deps", built.wheel, cwd=folder)
    (site,) = (folder / "venv" / "lib").glob("python3.*/site-packages")
    # A path line of a .pth file adds that folder only: the .pth files in it, an editable install's say, are not read.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n" + sysconfig.get_path("platlib") + "\n")
    outside = folder / "outside"
    outside.mkdir()
    return Installed(python.parent, outside)


def test_the_wheel_holds_every_module_of_the_package(built: Built) -> None:
    """Packages are listed by hand in setup.cfg; one that was forgotten there shows here."""
    package = ROOT / "acp_twisted"
    modules = {path.relative_to(ROOT).as_posix() for path in package.rglob("*.py")}
    assert modules == {name for name in built.files if name.startswith("acp_twisted/") and name.endswith(".py")}
    assert "acp_twisted/py.typed" in built.files


def test_the_wheel_touches_nothing_of_twisted_but_its_plugin_folder(built: Built) -> None:
    """One plugin module is added to C{twisted.plugins}; no file of Twisted's own is shadowed or replaced."""
    strange = {name for name in built.files if not name.startswith(("acp_twisted/", "acp_twisted-"))}
    assert strange == {"twisted/plugins/acp_twisted_plugin.py"}
    theirs = {path.as_posix() for path in distribution("twisted").files or ()}
    assert theirs, "Twisted's own file list is readable"
    assert built.files.isdisjoint(theirs)


def test_the_source_distribution_holds_what_packagers_need(built: Built) -> None:
    """Tests, docs, examples, tools and news are in it; what was made or downloaded here is not."""
    for name in ("tests", "docs", "examples", "tools", "benchmarks", "newsfragments"):
        expected = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / name).rglob("*")
            if path.is_file() and not NOT_SOURCE(str(path.parent), list(path.relative_to(ROOT).parts))
        }
        assert expected, f"there is nothing in {name}"
        assert expected <= built.source
    for name in ("LICENSE", "README.rst", "NEWS.rst", "CONTRIBUTING.rst", "tox.ini", "pyproject.toml", "setup.cfg"):
        assert name in built.source
    made = [name for name in built.source if {".peers", "__pycache__", "node_modules"} & set(name.split("/"))]
    assert made == []


def test_the_package_is_imported_from_the_wheel(installed: Installed) -> None:
    """The checks below look at the wheel's files and not at the checkout's."""
    where = installed.python("-c", "import acp_twisted; print(acp_twisted.__file__)").strip()
    assert Path(where).is_relative_to(installed.programs.parent)
    plugin = installed.python("-c", "import twisted.plugins.acp_twisted_plugin as p; print(p.__file__)").strip()
    assert Path(plugin).is_relative_to(installed.programs.parent)
    twisted = installed.python("-c", "import twisted; print(twisted.__file__)").strip()
    assert not Path(twisted).is_relative_to(installed.programs.parent)


def test_twistd_finds_the_plugin(installed: Installed) -> None:
    """C{twistd --help} lists C{acp}, and C{twistd acp --help} tells its options."""
    commands = [line.split()[0] for line in installed.twistd("--help").splitlines() if line.split()]
    assert "acp" in commands
    usage = installed.twistd("acp", "--help")
    assert "--agent" in usage
    assert "--listen" in usage
    assert "--stdio" in usage


def test_the_command_is_installed(installed: Installed) -> None:
    """C{acp-twisted} is a program after the installation."""
    assert "prompt" in run(installed.programs / "acp-twisted", "--help", cwd=installed.outside)


def test_the_scripted_agent_ships_with_the_package(installed: Installed) -> None:
    """The program that everybody's tests may drive is in the wheel."""
    assert "--listen" in installed.python("-m", "acp_twisted.testing.scripted_agent", "--help")
