"""Search in texts by regular expression, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import regex

from langchain_tokenmem.background import in_new_thread, seconds_left
from langchain_tokenmem.core.search_units import Hit, IndexSource, Scope
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.storage.search_index import SearchIndex

T = TypeVar("T")

_LONGEST_PATTERN = 2_000
"""Maximum characters; longer patterns may take a minute to compile, which nothing can stop."""

_PAGE = 200
"""Messages per read."""


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
    """Return the newest messages that match, in order; options as for `Recall.history_search`."""
    read = partial(store.history, scope, include_superseded=include_superseded)
    found = first_matches(
        _newest_first(read),
        lambda source: source.text,
        pattern,
        limit=limit,
        ignore_case=ignore_case,
        timeout_s=timeout_s,
    )
    return [Hit.of(source, score=1.0) for source in reversed(found)]


def _newest_first(
    read: Callable[[int | None, int], Iterable[IndexSource]],
) -> Iterator[IndexSource]:
    before: int | None = None
    while page := [*read(before, _PAGE)]:
        yield from (source for source in reversed(page) if not source.is_hidden)
        before = page[0].seq


def first_matches(
    items: Iterable[T],
    text_of: Callable[[T], str],
    pattern: str,
    *,
    limit: int,
    ignore_case: bool,
    timeout_s: float,
) -> list[T]:
    """Return the items with a text that matches, at most `limit` of them.

    Args:
        items: What to search, in this order: messages, or rows of a transcript.
        text_of: Returns the text of an item.
        pattern: A regular expression.
        limit: Items after which the search stops.
        ignore_case: Whether matching is case-insensitive.
        timeout_s: Seconds for the whole search.

    Raises:
        ConfigurationError: When the pattern is not a regular expression.
        RecallError: When it takes too long.
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise ConfigurationError(
            f"The pattern has {len(pattern):,} characters; the maximum is {_LONGEST_PATTERN:,}."
        )
    deadline = time.monotonic() + timeout_s
    flags = regex.IGNORECASE if ignore_case else 0

    def search() -> list[T]:
        compiled: Any = regex.compile(pattern, flags)
        found: list[T] = []
        for item in items:
            left = deadline - time.monotonic()
            if left <= 0:  # `regex` takes 0 for no limit
                raise TimeoutError
            if compiled.search(text_of(item), timeout=left, concurrent=True) is not None:
                found.append(item)
            if len(found) >= limit:
                break
        return found

    try:
        # The timeout of `regex` counts CPU time: on a busy machine 2 s took 7.
        return in_new_thread(search, "tokenmem-regex").result(seconds_left(timeout_s))
    except (regex.error, RecursionError, OverflowError) as error:
        raise ConfigurationError(
            f"{pattern!r:.200} is not a regular expression: {error}."
        ) from error
    except TimeoutError:
        raise RecallError(
            f"{pattern!r:.200} took too long; avoid nested repeats, or allow more "
            f"time (timeout_s=)."
        ) from None
