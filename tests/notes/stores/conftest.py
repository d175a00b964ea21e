"""Each store that this package has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.notes import JsonStore, SqlStore
from langchain_tokenmem.notes.stores.item_store import ItemStore


@pytest.fixture
def sql_store(request) -> Iterator[SqlStore]:
    with TranscriptStore("sqlite://") as transcripts:
        yield SqlStore(transcripts)


@pytest.fixture
def json_store(tmp_path) -> Iterator[JsonStore]:
    with JsonStore(tmp_path / "notes", debounce_s=60, max_delay_s=60) as store:
        yield store


@pytest.fixture(params=["sql_store", "json_store"])
def store(request: pytest.FixtureRequest) -> ItemStore:
    return request.getfixturevalue(request.param)
