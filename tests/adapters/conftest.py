"""Fixtures that the tests of several integrations ask for by name."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.adapters.integrations import DOORS


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Callable[..., tuple[Any, Any]]:
    """Return each door of a graph in turn: it makes a model and the graph around it."""
    return DOORS[request.param]
