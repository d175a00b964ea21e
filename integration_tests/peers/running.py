"""Runs one suite in a pytest process of its own, away from this project's settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suites import Suite

import langchain_tokenmem

SEED = "tokenmem"
"""Chooses the tenth; another word chooses another one."""

_TEST_LIMIT_S = 60.0
_SUITE_LIMIT_S = 1_200.0
_HERE = Path(__file__).parent
_OURS = ("PYTEST_", "HYPOTHESIS_", "COV_", "LANGSMITH_", "LANGCHAIN_")


@dataclass(frozen=True)
class Outcome:
    """How one test went: "passed", "failed" or "skipped", and its message."""

    outcome: str
    message: str


@dataclass(frozen=True)
class Run:
    """The outcomes by test id, and in how many tests a part of ours was made."""

    outcomes: Mapping[str, Outcome]
    with_ours: int


def run(suite: Suite, root: Path, *, share: int, only: Sequence[str] = ()) -> Run:
    """Run a suite.

    Args:
        suite: The suite.
        root: The folder that holds its `tests/`.
        share: One of how many tests is run; 1 for all.
        only: Ids of the tests to run; empty for all.
    """
    files = sorted({test.partition("::")[0] for test in only})
    with tempfile.TemporaryDirectory() as work:
        report, settings = Path(work) / "report.json", Path(work) / "pytest.ini"
        settings.write_text(
            f"[pytest]\nasyncio_mode = {suite.asyncio_mode}\n"
            "asyncio_default_fixture_loop_scope = function\n",
            encoding="utf-8",
        )
        order = {
            "suite": suite.name,
            "swap": suite.swap,
            "without": suite.without,
            "share": share,
            "only": [*only],
            "seed": SEED,
            "limit": _TEST_LIMIT_S,
            "report": str(report),
        }
        done = subprocess.run(
            [sys.executable, *_options(root, settings), *(files or suite.paths)],
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
    outcomes = told["outcomes"].items()
    return Run(
        {test: Outcome(one["outcome"], one["message"]) for test, one in outcomes}, told["with_ours"]
    )


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
