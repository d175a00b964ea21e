"""A store for each test: in memory, and in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from langchain_tokenmem import TranscriptStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def file_store(path: Path) -> Iterator[TranscriptStore]:
    with TranscriptStore(f"sqlite:///{path}") as store:
        yield store


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[TranscriptStore]:
    url = "sqlite://" if request.param == "memory" else f"sqlite:///{path}"
    with TranscriptStore(url) as store:
        yield store
