"""LangGraph's own suite, and what it misses, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from saver_checks import CHECKS
from savers import Threaded

from langchain_tokenmem import TokenMemorySaver, TranscriptStore

PASSED = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}
"""Tests of each capability in langgraph-checkpoint-conformance 0.0.2: 81."""


@pytest.fixture
def store(url: str) -> Iterator[TranscriptStore]:
    with TranscriptStore(url) as opened:
        yield opened


@pytest.mark.parametrize("use", ["async", "sync through threads"])
async def test_conformance_81_of_81(store, use):
    @checkpointer_test(name=f"TokenMemorySaver {use}")
    async def saver() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        made = TokenMemorySaver(store)
        yield made if use == "async" else Threaded(made)

    report = await validate(saver)
    failures = [one for result in report.results.values() for one in result.failures or ()]
    assert failures == []
    passed = {name: result.tests_passed for name, result in report.results.items()}
    # "FULL" would be said of a saver with nothing detected: only the number says something.
    assert passed == PASSED
    assert sum(passed.values()) == 81


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_what_the_suite_misses(store, check):
    check(TokenMemorySaver(store), "thread")
