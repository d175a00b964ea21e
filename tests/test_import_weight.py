"""Importing the package costs what langchain_core's messages cost, nothing heavier."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "chromadb",
    "langchain.agents",
    "langchain_community",
    "langgraph",
    "pydantic_settings",
    "sqlalchemy",
    "tiktoken",
)


def loaded_by(code: str) -> set[str]:
    """Return the modules that a fresh interpreter loads for `code`."""
    done = subprocess.run(  # noqa: S603  our own interpreter and text
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return loaded_by("import langchain_tokenmem")


@pytest.mark.parametrize("heavy", HEAVY)
def test_the_import_loads_nothing_heavy(loaded, heavy):
    assert "langchain_tokenmem" in loaded
    assert {name for name in loaded if name == heavy or name.startswith(f"{heavy}.")} == set()
