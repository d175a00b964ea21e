"""A notebook on a store in memory, with a clock that goes on by a minute at each look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import Notebook

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
