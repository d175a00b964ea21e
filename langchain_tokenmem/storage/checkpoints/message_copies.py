"""Copies of messages that share nothing that can be changed, and lists of them to compare."""

from __future__ import annotations

import copy
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat
from operator import attrgetter
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from langchain_tokenmem.storage.checkpoints.shapes import to_ranges

_MANY = 500
"""Messages from which on other threads get their turn while copies are made: half a millisecond."""

_IMMUTABLE = frozenset({type(None), bool, int, float, str, bytes})
_EMPTY: dict[type, Any] = {list: [], dict: {}}

_OVERHEAD = 750
"""Bytes that a cached message takes beside its fields, as `tracemalloc` has it."""

LISTED = 64
"""Bytes that a message takes in a list of them, beside the message."""

_fields = attrgetter("__dict__")
_extra = attrgetter("__pydantic_extra__")
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
    made: BaseMessage = object.__new__(type(message))
    _set_fields(made, fields)
    # Shared: it names the fields that were given, and that is all of them.
    _set_names(made, message.__pydantic_fields_set__)
    _set_extra(made, _copied(message.__pydantic_extra__ or {}))
    _set_private(made, copy.deepcopy(message.__pydantic_private__))
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
            and (entry.message.__pydantic_extra__ or {}) == (message.__pydantic_extra__ or {})
        )
    except (TypeError, ValueError, RecursionError):  # what cannot be compared, such as arrays
        return False


class CachedList:
    """Messages of the cache in a row, held field by field: what is done to each is done in C.

    Args:
        entries: The messages.

    Attributes:
        size: How many they are.
        bytes: Memory that the messages take, about.
        has_ids: Whether each has an id.
        ranges: Where each is stored, as ranges of references.
        beside: Those that are not in the transcript.
    """

    def __init__(self, entries: Iterable[CachedMessage]) -> None:
        self.size = 0
        self.bytes = 0
        self.has_ids = True
        self.ranges = ""
        self.beside: tuple[CachedMessage, ...] = ()
        self._entries: list[CachedMessage] = []
        self._fields: list[dict[str, Any]] = []
        self._extras: list[Any] = []
        self._types: list[type] = []
        # In which messages a field is an empty list or dict (1), and where it is any other value
        # that could be changed in place.
        self._empty: dict[tuple[str, type], bytearray] = {}
        self._filled: list[tuple[int, str]] = []
        self._names: list[set[str]] = []
        # Places of messages with fields that their class does not have, or private ones, and these.
        self._rare: list[tuple[int, dict[str, Any], Any]] = []
        self.add(list(entries))

    def extended(self, more: Sequence[CachedMessage]) -> CachedList:
        """Return the list with more at its end; no two threads may do that at the same time."""
        if not more:
            return self
        if len(self._fields) != self.size:  # another one goes on from here already
            return CachedList([*self.entries, *more])
        longer = copy.copy(self)
        longer.add(more)
        return longer

    def add(self, more: Sequence[CachedMessage]) -> None:
        """Add messages at the end, before anybody else has the list."""
        messages: list[Any] = [entry.message for entry in more]
        for at, entry in enumerate(more, self.size):
            for name, empty in entry.mutable:
                if empty is None:
                    self._filled.append((at, name))
                else:
                    mask = self._empty.setdefault((name, empty), bytearray())
                    mask.extend(bytes(at - len(mask)) + b"\1")
            extra, private = entry.message.__pydantic_extra__, entry.message.__pydantic_private__
            if extra or private:
                self._rare.append((at, extra or {}, private))
        self.size += len(more)
        self.bytes += sum(entry.size for entry in more)
        self.has_ids = self.has_ids and all(one.id for one in messages)
        self.ranges = to_ranges((entry.reference for entry in more), self.ranges)
        self.beside += tuple(entry for entry in more if entry.reference < 0)
        # These are shared with the lists that this one goes on from: they only ever grow.
        self._entries += more
        self._fields += map(_fields, messages)
        self._extras += (one.__pydantic_extra__ or _EMPTY[dict] for one in messages)
        self._types += map(type, messages)
        self._names += (one.__pydantic_fields_set__ for one in messages)

    @property
    def last(self) -> CachedMessage:
        """The last message."""
        return self._entries[self.size - 1]

    @property
    def entries(self) -> list[CachedMessage]:
        """The messages."""
        return self._entries[: self.size]

    def equals(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether messages are the same as these; False where that cannot be told."""
        try:
            return (
                self._fields[: self.size] == list(map(_fields, messages))
                and self._extras[: self.size] == list(map(_extra, messages))
                and self._types[: self.size] == list(map(type, messages))
            )
        except (TypeError, ValueError, RecursionError):
            return False

    def copies(self) -> list[BaseMessage]:
        """Return copies of all; other threads get their turn while they are made."""
        own = slice(self.size)
        fields = self._copied_fields()
        if self.size > _MANY:
            let_event_loop_run()
        made: list[BaseMessage] = list(map(object.__new__, self._types[own]))
        _each(_set_fields, made, fields)
        # Shared: it names the fields that were given, and that is all of them.
        _each(_set_names, made, self._names[own])
        _each(_set_extra, made, [{} for _ in made])
        _each(_set_private, made, repeat(None))
        for at, extra, private in self._rare:
            if at < self.size:
                _set_extra(made[at], _copied(extra))
                _set_private(made[at], copy.deepcopy(private))
        return made

    def _copied_fields(self) -> list[dict[str, Any]]:
        fields = list(map(dict.copy, self._fields[: self.size]))
        for (name, empty), mask in [*self._empty.items()]:
            if self.size > _MANY:
                let_event_loop_run()
            if empty is dict:
                for values in compress(fields, mask):
                    values[name] = {}
            else:
                for values in compress(fields, mask):
                    values[name] = []
        for at, name in self._filled:
            if at < self.size:
                fields[at][name] = _copied(fields[at][name])
        return fields


def _each(call: Callable[..., None], *arguments: Iterable[Any]) -> None:
    """Call something for each of several arguments, in C."""
    deque(map(call, *arguments), maxlen=0)
