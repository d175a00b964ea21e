"""Fixtures and settings of all tests: no network, and examples that CI can repeat."""

import gc
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings
from pytest_socket import disable_socket, enable_socket

from langchain_tokenmem import TranscriptStore
from tests import one_compilation

settings.register_profile(
    "full", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
# `make test`: a few examples of each property, so that the suite is run often
settings.register_profile("fast", parent=settings.get_profile("full"), max_examples=10)
settings.register_profile(
    "ci", parent=settings.get_profile("full"), max_examples=30, derandomize=True
)
settings.register_profile("long", parent=settings.get_profile("full"), max_examples=2_000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "full")
)


def pytest_configure(config: pytest.Config) -> None:
    # pytest-socket warns and raises; as an error the warning would hide the exception.
    config.addinivalue_line("filterwarnings", "ignore:A test tried to use socket:UserWarning")
    # What is imported and collected stays until the end: an eighth of the suite's time went into
    # looking through it for garbage.
    gc.disable()
    one_compilation.install()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()
    # Most tests leave little behind: by Python's own thresholds the collector takes a twentieth of
    # their time.
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    """Block sockets, but for the pairs that an event loop talks to itself through."""
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture
def store() -> Iterator[TranscriptStore]:
    """Return an empty store in memory; some folders and files have another one."""
    with TranscriptStore("sqlite://", shared=True) as store:
        yield store


@pytest.fixture
def snapshot_of(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file beside the test; UPDATE_SNAPSHOTS=1 writes the file."""
    folder = request.path.parent / "snapshots"

    def compare(name: str, text: str) -> None:
        file = folder / f"{name}.txt"
        if os.environ.get("UPDATE_SNAPSHOTS"):
            folder.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.read_text(encoding="utf-8") == text

    return compare
