"""The options of the golden views."""

import pytest

from tests.golden.digests import add_options, golden

__all__ = ["golden"]


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)
