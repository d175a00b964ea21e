"""What the integration tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import database, server, server_binaries

from langchain_tokenmem import TranscriptStore
from tests import one_compilation
from tests.golden.digests import add_options, golden

__all__ = ["golden"]


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure() -> None:
    one_compilation.install()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server that runs as long as the tests do."""
    binaries = server_binaries()
    if binaries is None:
        reason = "PostgreSQL is not installed (apt-get install postgresql)"
        if os.environ.get("CI") or os.environ.get("TOKENMEM_REQUIRE_POSTGRES"):
            pytest.fail(reason)
        pytest.skip(reason)
    with server(binaries) as url:
        yield url


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[str]:
    """The URL of a database of its own for each test."""
    with database(postgres_url) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/memory.db"
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
def store(url: str) -> Iterator[TranscriptStore]:
    """A store on an empty database, of either kind."""
    with TranscriptStore(url, shared=True) as store:
        yield store
