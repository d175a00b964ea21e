"""The fixture that runs a contract test through every integration, sync and async."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from langchain_tokenmem import TranscriptStore
from tests.contract.chats import CHATS, Way


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave one way of each test to `make test`, and mark the others as slow.

    Which integration it is, and whether sync or async, changes from test to test. `make test_all`
    runs every test in every way.
    """
    cases = defaultdict(list)
    for item in items:
        if Path(__file__).parent in item.path.parents and _has_way(item):
            cases[_without_way(item)].append(item)
    for turn, ways in enumerate(cases.values()):
        for number, item in enumerate(ways):
            if number != turn % len(ways):
                item.add_marker(pytest.mark.slow)


def _has_way(item: pytest.Item) -> bool:
    """Return whether a test case names an integration and a form."""
    way = item.callspec.params.get("way") if hasattr(item, "callspec") else None
    return isinstance(way, tuple)


def _without_way(item: pytest.Item) -> tuple[object, ...]:
    """Return what all ways of one test case have in common."""
    others = {key: value for key, value in item.callspec.params.items() if key != "way"}
    return item.path, item.originalname, repr(sorted(others.items(), key=lambda one: one[0]))


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("TOKENMEM_"):
            monkeypatch.delenv(name)


@pytest.fixture
def url() -> str:
    """Database of the stores; `integration_tests/contract` has PostgreSQL.

    There all stores of one test share a database: give threads of their own to several.
    """
    return "sqlite://"


@pytest.fixture
def store(url: str) -> Iterator[TranscriptStore]:
    """Return an empty store."""
    with TranscriptStore(url, shared=True) as store:
        yield store


@pytest.fixture(
    params=[(name, is_async) for name in CHATS for is_async in (False, True)],
    ids=lambda param: f"{param[0]}-{'async' if param[1] else 'sync'}",
)
def way(request: pytest.FixtureRequest, url: str) -> Iterator[Way]:
    """Return one way to hold a conversation.

    `@ways("chain", ...)` is for promises of some integrations only. Where a test names its way
    beside other parameters, a name alone is its synchronous form.
    """
    name, is_async = request.param if isinstance(request.param, tuple) else (request.param, False)
    way = Way(name, is_async, url)
    yield way
    for store in way.stores:
        store.close()
