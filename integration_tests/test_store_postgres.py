"""The same store on PostgreSQL, and beside it SQLite: one API, one behaviour."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from store_worker import turn

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import (
    StoreError,
)


@pytest.fixture
def store(url: str) -> Iterator[TranscriptStore]:
    with TranscriptStore(url) as store:
        yield store


def test_reads_beside_writers_are_whole(store):
    """A read sees a session's row and its messages as of one moment, or it raises in vain."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        while not stop.is_set():
            try:
                assert len(store.messages("s")) % 5 == 0
                assert len(store.conversation("s")[1]) % 5 == 0
                store.messages("not there")
            except (AssertionError, StoreError) as error:  # every read counts
                failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(60):
        store.add("s", turn("w", number))
        if number % 20 == 19:
            store.clear("s")
    stop.set()
    for reader in readers:
        reader.join()
    assert failures == []


def test_a_server_that_is_not_there_is_a_store_error(tmp_path):
    store = TranscriptStore(f"postgresql+psycopg://u:secret@/x?host={tmp_path}")
    with pytest.raises(StoreError) as error:
        store.messages("s")
    assert "secret" not in str(error.value)
