"""What the integration tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import postgres
import pytest


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server that runs as long as the tests do."""
    binaries = postgres.server_binaries()
    if binaries is None:
        reason = "PostgreSQL is not installed (apt-get install postgresql)"
        if os.environ.get("CI") or os.environ.get("TOKENMEM_REQUIRE_POSTGRES"):
            pytest.fail(reason)
        pytest.skip(reason)
    with postgres.server(binaries) as url:
        yield url
