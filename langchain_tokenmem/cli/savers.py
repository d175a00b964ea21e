"""Opens the checkpointers that a command names by URL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.adapters.migration.checkpoints import langgraph_saver
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.urls import of_file, parsed


def as_url(given: str) -> Any:
    """Return the URL of a database; a path is a SQLite file."""
    return given if "://" in given else of_file(given)


def sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite database; None for any other one."""
    address = parsed(as_url(url))
    name = address.database if address.get_backend_name() == "sqlite" else None
    return None if not name or "uri" in address.query or name == ":memory:" else Path(name)


@contextmanager
def our_saver(
    url: str, *, allow: Sequence[str] = (), is_new: bool = False
) -> Iterator[TokenMemorySaver]:
    """Open a `TokenMemorySaver`.

    Args:
        url: URL of a store, or the path of a SQLite file.
        is_new: Whether a SQLite file is made where there is none.
        allow: Further types that the state may hold, each as `module:Class`.

    Raises:
        ConfigurationError: When one of them cannot be.
    """
    if not is_new:
        check_file(url)
    with TranscriptStore(as_url(url)) as store:
        saver: Any = TokenMemorySaver(store)
        yield saver.with_allowlist([_type_name(one) for one in allow]) if allow else saver


def check_file(url: str) -> None:
    """Raise if a SQLite file is not there; opening it would make one."""
    file = sqlite_file(url)
    if file is not None and not file.is_file():
        raise ConfigurationError(f"There is no file {file}.")


def _type_name(given: str) -> tuple[str, str]:
    module, _, name = given.partition(":")
    if not module or not name:
        raise ConfigurationError(
            f"--allow {given!r}: it is module:Class, such as my_app.state:Plan."
        )
    return module, name


@contextmanager
def source_saver(
    url: str,
    *,
    is_ours: bool | None,
    target: TokenMemorySaver,
    allow: Sequence[str] = (),
) -> Iterator[Any]:
    """Open the saver to copy from.

    Args:
        url: URL of a database, or the path of a SQLite file.
        is_ours: Whether it is a store of this package; None to look into it. Where both are in one
            database, LangGraph's own is meant.
        target: Where the copy goes; values are read as strictly as it reads them.
        allow: Further types that the state of such a store may hold, each as `module:Class`.

    Raises:
        ConfigurationError: When there is no checkpointer of LangGraph's in it, and one is meant.
    """
    if not is_ours:
        check_file(url)
        with langgraph_saver(parsed(as_url(url)), target.serde) as found:
            if found is not None:
                yield found
                return
        if is_ours is False:
            raise ConfigurationError(
                "There are no tables of a LangGraph checkpointer in the source."
            )
    with our_saver(url, allow=allow) as saver:
        yield saver
