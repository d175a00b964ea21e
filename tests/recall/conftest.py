"""A recall over the store of a test."""

from collections.abc import Iterator

import pytest

from langchain_tokenmem import Recall, TranscriptStore


@pytest.fixture
def recall(store: TranscriptStore) -> Iterator[Recall]:
    with Recall(store) as recall:
        yield recall
