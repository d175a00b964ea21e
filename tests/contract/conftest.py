"""The fixture that runs a contract test through every integration, sync and async."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from langchain_tokenmem import TranscriptStore
from tests.contract.chats import CHATS, Way


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

    `@pytest.mark.parametrize("way", ["chain", ...], indirect=True)` is for promises of some
    integrations only; a name alone stands for its synchronous form.
    """
    name, is_async = request.param if isinstance(request.param, tuple) else (request.param, False)
    way = Way(name, is_async, url)
    yield way
    for store in way.stores:
        store.close()
