"""Search in a transcript by regular expression, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import regex

from langchain_tokenmem.background import in_time
from langchain_tokenmem.core.search_units import Hit, IndexSource, Scope
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.storage.search_index import SearchIndex

_LONGEST_PATTERN = 2_000
"""Characters; longer patterns may take a minute to compile, and a thread cannot be stopped."""

_PAGE = 200
"""Messages that are read at a time."""


def search_by_regex(
    store: SearchIndex,
    scope: Scope,
    pattern: str,
    *,
    limit: int,
    ignore_case: bool,
    timeout_s: float,
    include_superseded: bool = False,
) -> list[Hit]:
    """Return the newest messages that match, in order; the options of `Recall.history_search`."""
    if len(pattern) > _LONGEST_PATTERN:
        raise ConfigurationError(
            f"The pattern has {len(pattern):,} characters; it has at most {_LONGEST_PATTERN:,}."
        )
    deadline = time.monotonic() + timeout_s
    flags = regex.IGNORECASE if ignore_case else 0
    try:
        read = partial(store.history, scope, include_superseded=include_superseded)
        search = partial(_search, read, partial(regex.compile, pattern, flags), limit, deadline)
        # The limit of `regex` counts CPU time: on a busy machine 2 s of it took 7.
        found = in_time(search, max(0.0, deadline - time.monotonic()), "tokenmem-regex")
    except (regex.error, RecursionError, OverflowError) as error:
        raise ConfigurationError(f"{pattern!r:.200} is no regular expression: {error}.") from error
    except TimeoutError:
        raise RecallError(
            f"{pattern!r:.200} took too long; write it without nested repeats, or give it "
            f"more time (timeout_s=)."
        ) from None
    return [Hit.of(source, score=1.0) for source in reversed(found)]


def _search(
    read: Callable[[int | None, int], Sequence[IndexSource]],
    compile_pattern: Callable[[], Any],
    limit: int,
    deadline: float,
) -> list[IndexSource]:
    """Return the newest messages that match, newest first, before a common deadline."""
    compiled = compile_pattern()
    found: list[IndexSource] = []
    before: int | None = None
    while len(found) < limit:
        page = read(before, _PAGE)
        if not page:
            break
        for source in reversed(page):
            if source.is_hidden:
                continue
            left = deadline - time.monotonic()
            if left <= 0:  # for `regex`, a limit of 0 would be none at all
                raise TimeoutError
            if compiled.search(source.text, timeout=left, concurrent=True) is not None:
                found.append(source)
            if len(found) == limit:
                break
        before = page[0].seq
    return found
