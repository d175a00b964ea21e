"""What tests of several doors ask for by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from langchain_tokenmem import TokenMemory
from tests.adapters.integrations import DOORS
from tests.summarize.models import Scripted


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Callable[[TokenMemory], tuple[Scripted, Any]]:
    """Each door of a graph in turn: it makes a model and the graph around it."""
    return DOORS[request.param]
