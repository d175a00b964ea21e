"""Options of the golden views, and the fixture that compares; for the conftest of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.digests import GoldenFile


def add_options(parser: pytest.Parser) -> None:
    """Add the options, once for all folders that share them."""
    group = parser.getgroup("golden views")
    try:
        group.addoption(
            "--update-golden",
            action="store_true",
            help="write the digests of what is sent now, instead of comparing them",
        )
        group.addoption(
            "--dump-golden",
            metavar="FOLDER",
            help="write what is digested there, in full: to compare two checkouts by diff -r",
        )
    except ValueError:  # the other folder's conftest was first
        return


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenFile:
    """The digests that belong to a test file: those of the same name, as JSON."""
    dump = request.config.getoption("dump_golden", None)
    return GoldenFile(
        request.path.with_suffix(".json"),
        update=bool(request.config.getoption("update_golden", default=False)),
        dump=Path(dump) if dump else None,
    )
