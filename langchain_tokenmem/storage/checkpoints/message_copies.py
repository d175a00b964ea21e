"""Copies of messages that share nothing that can be changed, and lists of them to compare."""

from __future__ import annotations

import copy
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from langchain_tokenmem.storage.checkpoints.shapes import to_ranges

_MANY = 500
"""Messages after which other threads get their turn while copies are made: half a millisecond."""

_IMMUTABLE = frozenset({type(None), bool, int, float, str, bytes})
_EMPTY: dict[type, Any] = {list: [], dict: {}}

_OVERHEAD = 750
"""Bytes that a cached message takes beside its fields, as `tracemalloc` has it."""

LISTED = 64
"""Bytes that a message takes in a list of them, beside the message."""

_names, _extra, _private = map(
    attrgetter, ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
_set_fields, _set_names, _set_extra, _set_private = (
    vars(BaseModel)[slot].__set__ for slot in BaseModel.__slots__
)


class CachedMessage(NamedTuple):
    """A message that nobody may change.

    Attributes:
        message: The message.
        reference: Where it is stored.
        is_final: Whether it stays there: the transcript has it, or never will.
        mutable: Those of its fields that could be changed in place, each with the type of an empty
            list or dict; None for any other value.
        size: Bytes of memory that it takes, about.
    """

    message: BaseMessage
    reference: int
    is_final: bool
    mutable: tuple[tuple[str, type | None], ...]
    size: int


def cached(message: BaseMessage, reference: int, *, is_final: bool) -> CachedMessage:
    """Return a message, which is nobody else's from now on, for the cache."""
    fields = vars(message)
    mutable = tuple(
        (name, type(value) if type(value) in _EMPTY and not value else None)
        for name, value in fields.items()
        if type(value) not in _IMMUTABLE
    )
    # One empty list for all stays in the processor's cache when thousands are compared.
    fields.update({name: _EMPTY[empty] for name, empty in mutable if empty is not None})
    return CachedMessage(message, reference, is_final, mutable, size_of(message))


def size_of(message: BaseMessage) -> int:
    """Return about how many bytes of memory a cached message takes.

    Keys of dicts are not counted: those of decoded JSON and of fields are shared.
    """
    size = _OVERHEAD + sys.getsizeof(message.__pydantic_fields_set__)
    waiting: list[Any] = [vars(message), message.__pydantic_extra__, message.__pydantic_private__]
    seen = {id(empty) for empty in _EMPTY.values()}
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind is str or kind is bytes:
            size += sys.getsizeof(value)
        elif kind not in _IMMUTABLE and id(value) not in seen:
            seen.add(id(value))
            size += sys.getsizeof(value)
            if kind is dict:
                waiting += value.values()
            elif kind in {list, tuple, set, frozenset}:
                waiting += value
            else:
                waiting.append(getattr(value, "__dict__", None))
    return size


def copy_message(message: BaseMessage) -> BaseMessage:
    """Return a copy that shares nothing that can be changed.

    It does what pydantic's `model_copy` does, without checks, several times as fast.
    """
    fields = {name: _copied(value) for name, value in vars(message).copy().items()}
    names, extra, private = _names(message), _extra(message), _private(message)
    return _made([type(message)], [fields], [names], [extra], [private])[0]


def _made(
    types: Iterable[type],
    fields: Iterable[dict[str, Any]],
    names: Iterable[set[str]],
    extras: Iterable[Any],
    private: Iterable[Any],
) -> list[BaseMessage]:
    """Return messages made of their columns, in C; what may be shared is copied but for fields."""
    made: list[BaseMessage] = list(map(object.__new__, types))
    for set_values, values in (
        (_set_fields, fields),
        # Shared: it names the fields that were given, and that is all of them.
        (_set_names, names),
        (_set_extra, [_copied(one) if one else {} for one in extras]),
        (_set_private, [copy.deepcopy(one) if one else one for one in private]),
    ):
        deque(map(set_values, made, values), maxlen=0)
    return made


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is list:
        return [_copied(item) for item in [*value]]
    if kind is dict:
        return {key: _copied(item) for key, item in value.copy().items()}
    return copy.deepcopy(value)


def let_event_loop_run() -> None:
    """Give way in the middle of long work to an event loop, which would wait for 5 ms else.

    That is Python's switch interval. The main thread gives way to nobody: where it does this work,
    no event loop runs in it.
    """
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0)


def is_same(entry: CachedMessage, message: BaseMessage) -> bool:
    """Return whether a message still says what is cached of it; False where that is unknown."""
    try:
        return (
            type(entry.message) is type(message)
            and vars(entry.message) == vars(message)
            and (_extra(entry.message) or {}) == (_extra(message) or {})
        )
    except (TypeError, ValueError, RecursionError):  # what cannot be compared, such as arrays
        return False


@dataclass(frozen=True)
class CachedList:
    """Messages of the cache in a row, and what they are compared by, column by column.

    Attributes:
        entries: The messages.
        ranges: Where each is stored, as ranges of references.
        beside: Those that are not in the transcript.
        bytes: Memory that the messages take, about.
        has_ids: Whether each has an id.
    """

    entries: list[CachedMessage] = field(default_factory=list)
    ranges: str = ""
    beside: tuple[CachedMessage, ...] = ()
    bytes: int = 0
    has_ids: bool = True
    _fields: list[dict[str, Any]] = field(default_factory=list)
    _extras: list[dict[str, Any]] = field(default_factory=list)
    _types: list[type] = field(default_factory=list)
    _names: list[set[str]] = field(default_factory=list)
    _private: list[Any] = field(default_factory=list)
    # Places of the messages that have such a field.
    _mutable: dict[tuple[str, type | None], list[int]] = field(default_factory=dict)

    def extended(self, more: Sequence[CachedMessage]) -> CachedList:
        """Return the list with more at its end."""
        if not more:
            return self
        messages = [entry.message for entry in more]
        mutable = {column: [*places] for column, places in self._mutable.items()}
        for at, entry in enumerate(more, len(self.entries)):
            for column in entry.mutable:
                mutable.setdefault(column, []).append(at)
        return CachedList(
            [*self.entries, *more],
            to_ranges((entry.reference for entry in more), self.ranges),
            (*self.beside, *(entry for entry in more if entry.reference < 0)),
            self.bytes + sum(entry.size for entry in more),
            self.has_ids and all(one.id for one in messages),
            [*self._fields, *map(vars, messages)],
            [*self._extras, *(_extra(one) or _EMPTY[dict] for one in messages)],
            [*self._types, *map(type, messages)],
            [*self._names, *map(_names, messages)],
            [*self._private, *map(_private, messages)],
            mutable,
        )

    def equals(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether messages are the same as these; False where that cannot be told."""
        try:
            return (
                self._fields == list(map(vars, messages))
                and self._extras == list(map(_extra, messages))
                and self._types == list(map(type, messages))
            )
        except (TypeError, ValueError, RecursionError):
            return False

    def copies(self) -> list[BaseMessage]:
        """Return copies of all; other threads get their turn while they are made."""
        fields = list(map(dict.copy, self._fields))
        for (name, empty), places in self._mutable.items():
            if len(fields) > _MANY:
                let_event_loop_run()
            if empty is dict:
                for at in places:
                    fields[at][name] = {}
            elif empty is list:
                for at in places:
                    fields[at][name] = []
            else:
                for at in places:
                    fields[at][name] = _copied(fields[at][name])
        if len(fields) > _MANY:
            let_event_loop_run()
        return _made(self._types, fields, self._names, self._extras, self._private)
