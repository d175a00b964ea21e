"""The test suites of other projects: fetched with pip, run away from this project's settings."""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import langchain_tokenmem

_SUITE_LIMIT_S = 1_200.0
_DOWNLOAD_LIMIT_S = 180
_HERE = Path(__file__).parent
_OURS = ("PYTEST_", "HYPOTHESIS_", "COV_", "LANGSMITH_", "LANGCHAIN_")


@dataclass(frozen=True)
class Suite:
    """Tests of one distribution, with a part of it replaced by ours.

    Args:
        name: Its name here and in the list of expected differences.
        distribution: Its sdist holds the tests; the installed version is taken.
        paths: Files or folders below the sdist's root.
        swap: The part that is replaced; see `swaps.py`.
        asyncio_mode: As the project's own pytest settings have it.
        is_nightly: Whether only `make nightly` runs it.
    """

    name: str
    distribution: str
    paths: tuple[str, ...]
    swap: Literal["saver", "middleware"]
    asyncio_mode: Literal["strict", "auto"] = "auto"
    is_nightly: bool = False


_AGENTS = ("tests/unit_tests/agents",)
SUITES = (
    Suite("langgraph", "langgraph", ("tests",), "saver", asyncio_mode="strict"),
    Suite("prebuilt", "langgraph-prebuilt", ("tests",), "saver", is_nightly=True),
    Suite("checkpoint-sqlite", "langgraph-checkpoint-sqlite", ("tests",), "saver"),
    Suite("agents-saver", "langchain", _AGENTS, "saver", is_nightly=True),
    Suite("agents-middleware", "langchain", _AGENTS, "middleware"),
)
"""The suite of langchain-tests runs in test_retriever.py. The rules of LangGraph's stores
are compared with its own store in tests/notes/test_item_store.py."""


Outcomes = dict[str, tuple[str, str]]
"""By the id of a test: "passed", "failed" or "skipped", and its message."""


def run(suite: Suite, root: Path, *, share: int, left_out: Sequence[str]) -> tuple[Outcomes, int]:
    """Run a suite; return the outcomes, and how many parts of ours were made.

    Args:
        suite: The suite.
        root: The folder that holds its `tests/`.
        share: One of how many tests is run; 1 for all.
        left_out: Ids of tests that are not run.
    """
    with tempfile.TemporaryDirectory() as work:
        report, settings = Path(work) / "report.json", Path(work) / "pytest.ini"
        settings.write_text(
            f"[pytest]\nasyncio_mode = {suite.asyncio_mode}\n"
            "asyncio_default_fixture_loop_scope = function\n",
            encoding="utf-8",
        )
        order = {
            "swap": suite.swap,
            "share": share,
            "left_out": [*left_out],
            "report": str(report),
        }
        done = subprocess.run(
            [sys.executable, *_options(root, settings), *suite.paths],
            cwd=root,
            env=_environment(order),
            capture_output=True,
            text=True,
            timeout=_SUITE_LIMIT_S,
            check=False,
        )
        if not report.exists():
            raise RuntimeError(f"{suite.name} did not run:\n{done.stdout}\n{done.stderr}")
        told = json.loads(report.read_text(encoding="utf-8"))
    return {test: (one, text) for test, (one, text) in told["outcomes"].items()}, told["made"]


def _options(root: Path, settings: Path) -> list[str]:
    plugins = ["-p", "peer_plugin", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    quiet = ["-q", "--tb=short", "--disable-warnings", "--continue-on-collection-errors"]
    return ["-m", "pytest", "-c", str(settings), "--rootdir", str(root), *plugins, *quiet]


def _environment(order: Mapping[str, object]) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_OURS)}
    package = Path(langchain_tokenmem.__file__).parents[1]
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(_HERE), str(package)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_DOCKER": "true",  # LangGraph's word for: no PostgreSQL and no Redis at fixed ports
        "TOKENMEM_PEERS_ORDER": json.dumps(order),
    }


class UnavailableError(Exception):
    """The tests of a distribution cannot be had here; the text says why."""


def unpacked_tests(distribution: str) -> Path:
    """Return the folder outside the repository that holds `tests/` of the installed version.

    Only the tests are unpacked: beside its own sources a suite would import those, and with its
    project file it would run under settings that we do not see.

    Raises:
        UnavailableError: When pip finds no sdist, or the sdist has no tests.
    """
    pinned = f"{distribution}=={version(distribution)}"
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "langchain-tokenmem" / "peers" / pinned.replace("==", "-")
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
            command, capture_output=True, text=True, timeout=_DOWNLOAD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"pip took more than {_DOWNLOAD_LIMIT_S} s for {pinned}.") from None
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
