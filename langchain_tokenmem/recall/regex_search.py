"""Search in a transcript by regular expression, within a time limit."""

from __future__ import annotations

import time
from typing import Any

import regex

from langchain_tokenmem.core.search_units import Hit, IndexSource, Scope
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.storage.search_index.store import IndexStore

_PAGE = 200
"""Messages that are read at a time."""


def search_by_regex(
    store: IndexStore,
    scope: Scope,
    pattern: str,
    *,
    limit: int,
    ignore_case: bool,
    timeout_s: float,
    include_superseded: bool = False,
) -> list[Hit]:
    """Return the newest messages that match, in order; the options of `Recall.history_search`."""
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except regex.error as error:
        raise ConfigurationError(f"{pattern!r} is no regular expression: {error}.") from error
    left = timeout_s
    found: list[IndexSource] = []
    before: int | None = None
    while len(found) < limit:
        page = store.history(scope, before, _PAGE, include_superseded=include_superseded)
        if not page:
            break
        for source in reversed(page):
            if source.is_hidden:
                continue
            begun = time.monotonic()
            if _is_match(compiled, source.text, left):
                found.append(source)
            left -= time.monotonic() - begun
            if len(found) == limit:
                break
        before = page[0].seq
    return [Hit.of(source, score=1.0) for source in reversed(found)]


def _is_match(compiled: Any, text: str, seconds: float) -> bool:
    try:
        # A timeout of 0 would be none at all.
        found = compiled.search(text, timeout=max(seconds, 1e-6), concurrent=True)
    except TimeoutError:
        raise RecallError(
            f"{compiled.pattern!r} took too long; write it without nested repeats, or give it "
            f"more time (timeout_s=)."
        ) from None
    return found is not None
