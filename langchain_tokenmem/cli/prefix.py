"""Comparison of two successive requests: the prefix that a provider's cache can reuse."""

from __future__ import annotations

import os
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.cli.reference_counter import PER_MESSAGE, ReferenceCounter, wire_text


def is_prefix(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> bool:
    """Return whether `after` begins, byte for byte, with all of `before`."""
    return len(before) <= len(after) and all(
        wire_text(old) == wire_text(new) for old, new in zip(before, after, strict=False)
    )


def shared_tokens(
    before: Sequence[BaseMessage], after: Sequence[BaseMessage], counter: ReferenceCounter
) -> int:
    """Return the tokens at the beginning of `after` that `before` began with, too.

    Equal messages count whole; of the first that differs the common beginning counts.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> letters = ReferenceCounter(len)
        >>> shared_tokens([HumanMessage("abc")], [HumanMessage("abd")], letters)
        6
    """
    shared = 0
    for old, new in zip(before, after, strict=False):
        if wire_text(old) != wire_text(new):
            return shared + _shared_in(old, new, counter)
        shared += counter.message(new)
    return shared


def _shared_in(old: BaseMessage, new: BaseMessage, counter: ReferenceCounter) -> int:
    if old.type != new.type or not (isinstance(old.content, str) and isinstance(new.content, str)):
        return 0
    # Characters are wanted here, not folders.
    text = os.path.commonprefix([old.content, new.content])  # noqa: RUF071
    return PER_MESSAGE + counter.text(text)
