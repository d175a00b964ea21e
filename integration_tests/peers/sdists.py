"""Fetches sdists with pip and unpacks their tests into a cache outside the repository."""

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

_TIMEOUT_S = 180


class UnavailableError(Exception):
    """The tests of a distribution cannot be had here; the text says why."""


def cache_folder() -> Path:
    """Return where unpacked tests are kept from run to run."""
    named = os.environ.get("TOKENMEM_PEERS_CACHE")
    if named:
        return Path(named)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "langchain-tokenmem" / "peers"


def unpacked_tests(distribution: str) -> Path:
    """Return the folder that holds `tests/` of a distribution's installed version.

    Only the tests are unpacked: beside its own sources a suite would import those, and with its
    project file it would run under settings that we do not see.

    Raises:
        UnavailableError: When pip finds no sdist, or the sdist has no tests.
    """
    pinned = f"{distribution}=={version(distribution)}"
    folder = cache_folder() / pinned.replace("==", "-")
    if (folder / "tests").is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        _unpack_tests(_download(pinned, distribution, Path(work)), Path(work))
        if not (Path(work) / "tests").is_dir():
            raise UnavailableError(f"The sdist of {pinned} holds no tests.")
        folder.mkdir(exist_ok=True)
        try:
            (Path(work) / "tests").rename(folder / "tests")
        except OSError:
            if not (folder / "tests").is_dir():  # else another process was faster
                raise
    return folder


def _download(pinned: str, distribution: str, work: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", distribution, "--dest", str(work), pinned]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"pip took more than {_TIMEOUT_S} s for {pinned}.") from None
    found = sorted(work.glob("*.tar.gz"))
    if done.returncode or not found:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = said[-1] if said else "no sdist came"
        raise UnavailableError(f"pip could not fetch the sdist of {pinned}: {reason}")
    return found[0]


def _unpack_tests(sdist: Path, work: Path) -> None:
    """Unpack `<name>-<version>/tests/...` as `tests/...`."""
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            inside = member.name.partition("/")[2]
            if inside.startswith("tests/"):
                member.name = inside
                archive.extract(member, work, filter="data")
