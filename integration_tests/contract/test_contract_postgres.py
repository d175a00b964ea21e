"""Promises that depend on storage hold on PostgreSQL as they do on SQLite.

The tests are those of `tests/contract`; here their fixture `url` is a database of PostgreSQL.
"""

from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from typing import Any

import pytest

from tests.contract.conftest import store, way

__all__ = ["store", "way"]

MODULES = (
    "test_nothing_lost",
    "test_odd_text",
    "test_recall",
    "test_forks_and_edits",
    "test_edits",
    "test_scope",
    "test_erase",
)

# Its two users have the same thread, which one database refuses; two of SQLite do not know it.
ELSEWHERE = {"test_a_summary_of_one_user_is_in_no_request_of_another"}


@pytest.fixture
def url(postgres: str) -> str:
    return postgres


def _of_modules() -> Iterator[tuple[str, Any]]:
    """Yield the fixtures of the modules, and their tests that use the database by a fixture."""
    for module in MODULES:
        names = vars(import_module(f"tests.contract.{module}"))
        fixtures = {
            key: value for key, value in names.items() if hasattr(value, "_fixture_function")
        }
        yield from fixtures.items()
        for name, value in names.items():
            if (
                name.startswith("test_")
                and name not in ELSEWHERE
                and {"way", "url", "store", *fixtures} & {*signature(value).parameters}
            ):
                yield name, value


for found, what in _of_modules():
    assert globals().setdefault(found, what) is what, f"two contract modules define {found}"
