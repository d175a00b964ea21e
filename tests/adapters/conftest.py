"""Fixtures that the tests of several integrations ask for by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from langchain_tokenmem import TranscriptStore
from tests.adapters.integrations import DOORS


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Callable[..., tuple[Any, Any]]:
    """Return each door of a graph in turn: it makes a model and the graph around it."""
    return DOORS[request.param]


@pytest.fixture
def store() -> Iterator[TranscriptStore]:
    """Return an empty store in memory."""
    with TranscriptStore("sqlite://", shared=True) as store:
        yield store
