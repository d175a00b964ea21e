"""A store in a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from langchain_tokenmem import TranscriptStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def file_store(path: Path) -> Iterator[TranscriptStore]:
    with TranscriptStore(path, shared=True) as store:
        yield store
