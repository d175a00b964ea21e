"""Notebooks whose clock goes on by a minute at each look, and stores to keep them in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langchain_tokenmem import Notebook, TranscriptStore
from langchain_tokenmem.notes import JsonStore, SqlStore

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def minutes() -> Callable[[], datetime]:
    moments: Iterator[datetime] = (NOON + timedelta(minutes=n) for n in count())
    return lambda: next(moments)


def notebook_on(store: Any, **options: Any) -> Notebook:
    return Notebook(store, **{"now": minutes(), "project": "shop", **options})


@pytest.fixture
def store() -> InMemoryStore:
    return InMemoryStore()


@pytest.fixture
def notebook(store: InMemoryStore) -> Notebook:
    return notebook_on(store)


@contextmanager
def opened(kind: str, folder: Path, **options: Any) -> Iterator[BaseStore]:
    """Open a store of LangGraph's or of this package, on the disk where it can be there."""
    if kind == "memory":
        yield InMemoryStore()
    elif kind == "sqlite":
        with SqliteStore.from_conn_string(str(folder / "store.db"), **options) as theirs:
            theirs.setup()
            yield theirs
    elif kind == "sql":
        with TranscriptStore(folder / "notes.db", shared=True) as transcripts:
            yield SqlStore(transcripts)
    else:
        with JsonStore(folder / "notes", **options) as files:
            yield files


@pytest.fixture(params=["sql", "json"])
def own_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    """Each store of this package."""
    with opened(request.param, tmp_path, debounce_s=60, max_delay_s=60) as store:
        yield store


@pytest.fixture(params=["memory", "sqlite", "sql", "json"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    """LangGraph's own stores and those of this package."""
    with opened(request.param, tmp_path) as store:
        yield store
