"""The contract tests of storage, on PostgreSQL."""

from __future__ import annotations

import pytest

from tests.contract.conftest import way

__all__ = ["way"]


@pytest.fixture
def url(postgres: str) -> str:
    """Database of the stores of a contract test, in place of SQLite in memory."""
    return postgres
