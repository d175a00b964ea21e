"""Messages taken out of a value, wherever they are in it, and put back in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Overwrite, Send

_MARK = "\x00tokenmem"
"""Key of the object that stands for messages: `{mark: 3}` for one, `{mark: [3, 9]}` for a list."""

LOOKED_INTO = (_DeltaSnapshot, Overwrite, Send)
"""Objects of LangGraph that may hold messages."""

_PLAIN = frozenset({type(None), bool, int, float, str})


class _TakenError(Exception):
    """A value holds the mark itself."""


def detach(value: Any) -> tuple[Any, list[BaseMessage]]:
    """Return a value with marks in place of its messages, and the messages in order.

    Lists, tuples, dicts, `Send`, `Overwrite` and the snapshots of delta channels are looked
    through, and copied, for a node may go on with its state meanwhile, and what is checked is what
    is stored; what other objects hold stays in them. The value itself is not changed.
    """
    found: list[BaseMessage] = []
    try:
        return _detached(value, found), found
    except (_TakenError, RecursionError):
        return value, []


def attach(shape: Any, messages: Sequence[BaseMessage]) -> Any:
    """Return the value that `detach` was given; messages in one that had none are no marks."""
    return _attached(shape, messages) if messages else shape


def _detached(value: Any, found: list[BaseMessage]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in {list, tuple}:
        items = [*value]  # first: what is copied is fast to look at, and nobody changes it
        if items and all(map(_is_message, set(map(type, items)))):
            found += items
            return {_MARK: [len(found) - len(items), len(found)]}
    if kind is dict and _MARK in value:
        raise _TakenError
    if _is_message(kind):
        found.append(value)
        return {_MARK: len(found) - 1}
    return mapped(value, lambda item: _detached(item, found))


def _attached(shape: Any, messages: Sequence[BaseMessage]) -> Any:
    if type(shape) is dict and _MARK in shape:
        mark = shape[_MARK]
        return messages[mark] if isinstance(mark, int) else list(messages[mark[0] : mark[1]])
    return mapped(shape, lambda item: _attached(item, messages))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value of values with each of them changed; anything else as it is.

    Looks into lists, tuples, dicts, `Send`, `Overwrite` and the snapshots of delta channels.
    """
    kind = type(value)
    if kind in {list, tuple}:
        return kind([change(item) for item in [*value]])
    if kind is dict:
        return {key: change(item) for key, item in value.copy().items()}
    if kind in {_DeltaSnapshot, Overwrite}:
        return kind(change(value.value))
    if kind is Send:
        return Send(value.node, change(value.arg), timeout=value.timeout)
    return value


def _is_message(kind: type) -> bool:
    # What takes a message away is no message of the thread.
    return issubclass(kind, BaseMessage) and not issubclass(kind, RemoveMessage)


def is_bare(shape: Any, messages: Sequence[BaseMessage]) -> bool:
    """Return whether a value that was taken apart is messages, or None, and nothing beside them."""
    return shape is None or (bool(messages) and type(shape) is dict and shape.keys() == {_MARK})


def is_plain(value: Any) -> bool:
    """Return whether a value holds nothing but JSON's types and bytes, not nested too deeply."""
    try:
        return _is_plain(value)
    except RecursionError:  # the serializer says what is wrong with it
        return False


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind in {list, tuple}:
        return all(map(_is_plain, value))
    if kind is dict:
        return all(type(key) in _PLAIN and _is_plain(item) for key, item in value.items())
    return kind in _PLAIN or kind is bytes


def to_ranges(numbers: Iterable[int], before: Iterable[Sequence[int]] = ()) -> list[list[int]]:
    """Return numbers as runs, behind others: a chat of any length is one of them.

    Example:
        >>> to_ranges([1, 2, 3, 7])
        [[1, 3], [7, 7]]
    """
    runs = [[*run] for run in before]
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def from_ranges(runs: Iterable[Sequence[int]]) -> list[int]:
    """Return the numbers that `to_ranges` was given."""
    return [*chain.from_iterable(range(first, last + 1) for first, last in runs)]
