"""Messages taken out of a value, wherever they are in it, and put back in."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import sub
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Overwrite, Send

_MARK = "\x00tokenmem"
"""Key of the object that stands for messages: `{mark: 3}` for one, `{mark: [3, 9]}` for a list."""

_PIECE = 256
"""Numbers whose runs are found at once."""

_PLAIN = frozenset({type(None), bool, int, float, str})


class _TakenError(Exception):
    """A value holds the mark itself."""


def detach(value: Any) -> tuple[Any, list[BaseMessage]]:
    """Return a value with marks in place of its messages, and the messages in order.

    Lists, tuples, dicts, `Send`, `Overwrite` and the snapshots of delta channels are looked
    through; what other objects hold stays in them. The value itself is not changed.
    """
    found: list[BaseMessage] = []
    try:
        shape = _detached(value, found)
    except (_TakenError, RecursionError):
        return value, []
    return (shape, found) if found else (value, found)


def attach(shape: Any, messages: Sequence[BaseMessage]) -> Any:
    """Return the value that `detach` was given; messages in one that had none are no marks."""
    return _attached(shape, messages) if messages else shape


def _detached(value: Any, found: list[BaseMessage]) -> Any:  # noqa: PLR0911  (one for each type)
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in {list, tuple}:
        if value and all(map(_is_message, set(map(type, value)))):
            found += value
            return {_MARK: [len(found) - len(value), len(found)]}
        return [_detached(item, found) for item in value]
    if kind is dict:
        if _MARK in value:
            raise _TakenError
        return {key: _detached(item, found) for key, item in value.items()}
    if _is_message(kind):
        found.append(value)
        return {_MARK: len(found) - 1}
    if kind is _DeltaSnapshot:
        return _DeltaSnapshot(_detached(value.value, found))
    if kind is Overwrite:
        return Overwrite(_detached(value.value, found))
    if kind is Send:
        return Send(value.node, _detached(value.arg, found), timeout=value.timeout)
    return value


def _attached(shape: Any, messages: Sequence[BaseMessage]) -> Any:  # noqa: PLR0911  (as above)
    kind = type(shape)
    if kind is dict:
        mark = shape.get(_MARK)
        if mark is None:
            return {key: _attached(item, messages) for key, item in shape.items()}
        return messages[mark] if isinstance(mark, int) else list(messages[mark[0] : mark[1]])
    if kind is list:
        return [_attached(item, messages) for item in shape]
    if kind is _DeltaSnapshot:
        return _DeltaSnapshot(_attached(shape.value, messages))
    if kind is Overwrite:
        return Overwrite(_attached(shape.value, messages))
    if kind is Send:
        return Send(shape.node, _attached(shape.arg, messages), timeout=shape.timeout)
    return shape


def _is_message(kind: type) -> bool:
    # What takes a message away is no message of the thread.
    return issubclass(kind, BaseMessage) and not issubclass(kind, RemoveMessage)


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


def to_ranges(numbers: Sequence[int]) -> str:
    """Return numbers as text, runs that grow or shrink by one as first and last.

    Example:
        >>> to_ranges([1, 2, 3, 7, -1, -2])
        '1:3,7,-1:-2'
    """
    packed = array("q", numbers)
    runs: list[tuple[int, int]] = []
    for start in range(0, len(packed), _PIECE):
        found = _runs_in(packed[start : start + _PIECE].tobytes())
        if runs and _are_one(runs[-1], found[0]):
            runs[-1] = (runs[-1][0], found[0][1])
            found = found[1:]
        runs += found
    return ",".join(f"{one}:{other}" if one != other else str(one) for one, other in runs)


@lru_cache(maxsize=64)
def _runs_in(packed: bytes) -> tuple[tuple[int, int], ...]:
    """Return the runs in an array of numbers, in the form of its bytes.

    A list that grows has all pieces but the last as it had them before.
    """
    numbers = array("q", packed)
    runs: list[tuple[int, int]] = []
    start = at = 0
    for step, same in groupby(map(sub, numbers[1:], numbers)):
        count = len(list(same))
        if start < at:  # the run that ends here; the next number begins another one
            runs.append((start, at))
            start = at = at + 1
            count -= 1
        if abs(step) == 1:
            at += count
        else:
            runs += zip(range(at, at + count), range(at, at + count), strict=True)
            start = at = at + count
    runs.append((start, at))
    return tuple((numbers[first], numbers[last]) for first, last in runs)


def _are_one(run: tuple[int, int], following: tuple[int, int]) -> bool:
    """Return whether two runs are one."""
    step = following[0] - run[1]
    return abs(step) == 1 and all((last - first) * step >= 0 for first, last in (run, following))


def from_ranges(text: str) -> list[int]:
    """Return the numbers that `to_ranges` was given."""
    numbers: list[int] = []
    for first, last in runs_of(text):
        step = 1 if last >= first else -1
        numbers += range(first, last + step, step)
    return numbers


def runs_of(text: str) -> list[tuple[int, int]]:
    """Return the runs of a text of ranges, each as first and last number."""
    runs = []
    for run in text.split(",") if text else []:
        first, _, last = run.partition(":")
        runs.append((int(first), int(last or first)))
    return runs
