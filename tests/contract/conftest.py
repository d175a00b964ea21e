"""The fixture that runs a contract test through every integration, sync and async."""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from langchain_tokenmem import TranscriptStore
from tests.contract.chats import CHATS, Way


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave one case of each test with integrations to `make test`, and mark the others as slow.

    Which integration it is, and whether sync or async, changes from test to test. `make test_all`
    runs every case in every integration.
    """
    cases = defaultdict(list)
    for item in items:
        is_own = Path(__file__).parent in item.path.parents
        if is_own and _has_way(item) and not item.get_closest_marker("slow"):
            cases[item.path, item.originalname].append(item)
    for turn, ways in enumerate(cases.values()):
        for number, item in enumerate(ways):
            if number != turn % len(ways):
                item.add_marker(pytest.mark.slow)


def _has_way(item: pytest.Item) -> bool:
    """Return whether a test case names an integration and a form."""
    way = item.callspec.params.get("way") if hasattr(item, "callspec") else None
    return isinstance(way, tuple)


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
