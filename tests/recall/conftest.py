"""A store in memory and a recall over it; modules that need a file have a store of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from langchain_tokenmem import Recall, TranscriptStore


@pytest.fixture
def store() -> Iterator[TranscriptStore]:
    with TranscriptStore("sqlite://", shared=True) as store:
        yield store


@pytest.fixture
def recall(store: TranscriptStore) -> Iterator[Recall]:
    with Recall(store) as recall:
        yield recall
