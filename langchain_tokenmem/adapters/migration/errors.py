"""Errors of a migration's source, raised with the place that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from langchain_tokenmem.errors import ConfigurationError, StoreError, TokenMemoryError
from langchain_tokenmem.storage.checkpoints.codec import refused_types


@contextmanager
def reading_source(where: str) -> Iterator[None]:
    """Raise errors that name the place where the source cannot be read.

    LangGraph's serializer gives plain data in place of a type that is not allowed. Savers may read
    in another thread, so what it refuses anywhere meanwhile counts.

    Raises:
        ConfigurationError: When the source holds a type that is not allowed.
        StoreError: When it fails.
    """
    failure: Exception | None = None
    with refused_types(in_any_thread=True) as refused:
        try:
            yield
        except Exception as error:  # noqa: BLE001  # somebody else's saver may raise anything
            failure = error
    if refused:
        names = sorted(refused)
        raise ConfigurationError(
            f"{where}: the source holds {', '.join(names)}, which is not allowed to be loaded. If "
            f"you trust it: {' '.join(f'--allow {name}' for name in names)}, or in Python "
            f"allowed_types of TokenMemorySaver and the serializer of the source."
        ) from failure
    if isinstance(failure, TokenMemoryError):
        raise failure
    if failure is not None:
        advice = "Mend it there, or name the threads that can be read with --thread."
        if "pickle" in str(failure):
            advice = (
                "What was pickled is not read, for that can run code: convert it with LangGraph "
                "first, or call migrate_checkpoints in Python with a saver that reads it."
            )
        raise StoreError(
            f"{where}: the source cannot read it ({failure!r:.200}). {advice}"
        ) from failure
