"""Opening a database, and saying why it does not open."""

from __future__ import annotations

from pathlib import Path

import pytest

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.storage.database import Database
from tests.storage.samples import turn


@pytest.mark.parametrize(
    "url", ["", "memory.db", "mysql://x", "nosuch://u:secret@h/db", "oracle:x"]
)
def test_urls_that_do_not_work_are_refused_without_their_password(url):
    with pytest.raises(ConfigurationError) as error:
        TranscriptStore(url)
    assert "secret" not in str(error.value)


def test_a_pool_has_a_connection():
    with pytest.raises(ConfigurationError, match="pool_size"):
        TranscriptStore("sqlite://", pool_size=0)


def test_a_folder_that_is_not_there_is_a_store_error(tmp_path: Path):
    store = TranscriptStore(f"sqlite:///{tmp_path}/no/such/memory.db")
    with pytest.raises(StoreError, match="unable to open"):
        store.add("s", turn(1))


def test_a_database_is_opened_on_first_use(path):
    Database(f"sqlite:///{path}")
    assert not path.exists()
