"""What a saver remembers of messages: decoded ones, and which objects are stored where."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

_ATOMS = frozenset({type(None), bool, int, float, str, bytes})


class Known(NamedTuple):
    """An object whose reference is known.

    Attributes:
        message: The object itself: while it is held, its `id()` is nobody else's.
        fields: Its fields when it was stored; it may have been changed in place since.
        reference: Where it is stored.
        is_settled: Whether the transcript has it, or never will.
    """

    message: BaseMessage
    fields: dict[str, Any]
    reference: int
    is_settled: bool


@dataclass
class _Group:
    decoded: dict[int, BaseMessage] = field(default_factory=dict)
    known: dict[int, Known] = field(default_factory=dict)


class MessageMemory:
    """A bounded memory of messages, safe to share between threads.

    The sessions used last stay. A message is given out as a copy, so that nobody's changes reach
    anybody else.

    Args:
        size: Most messages that are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._groups: OrderedDict[int, _Group] = OrderedDict()
        self._lock = threading.Lock()

    def remembered(self, group_id: int, references: Iterable[int]) -> dict[int, BaseMessage]:
        """Return the messages that are here, by reference; nobody may change them."""
        with self._lock:
            decoded = self._group(group_id).decoded
            return {number: decoded[number] for number in references if number in decoded}

    def keep(self, group_id: int, decoded: dict[int, BaseMessage]) -> None:
        """Remember decoded messages; nobody may change them any more."""
        with self._lock:
            self._group(group_id).decoded.update(decoded)
            self._shrink(group_id)

    def give(
        self, group_id: int, references: Sequence[int], decoded: dict[int, BaseMessage]
    ) -> list[BaseMessage]:
        """Return copies of decoded messages, and remember where each copy is stored."""
        kept = [decoded[number] for number in references]
        given = [fresh(message) for message in kept]
        with self._lock:
            known = self._group(group_id).known
            for number, mine, theirs in zip(references, kept, given, strict=True):
                known[id(theirs)] = Known(theirs, mine.__dict__, number, is_settled=number > 0)
            self._shrink(group_id)
        return given

    def known(self, group_id: int, messages: Sequence[BaseMessage]) -> list[Known | None]:
        """Return what is known of objects; None for those that are new or were changed."""
        with self._lock:
            find = self._group(group_id).known.get
            found = [find(id(message)) for message in messages]
        return [
            one if one is not None and _is_unchanged(one, message) else None
            for one, message in zip(found, messages, strict=True)
        ]

    def learn(self, group_id: int, known: Known) -> None:
        """Remember where an object is stored."""
        with self._lock:
            self._group(group_id).known[id(known.message)] = known
            self._shrink(group_id)

    def forget(self, group_id: int) -> None:
        """Forget a session."""
        with self._lock:
            self._groups.pop(group_id, None)

    def _group(self, group_id: int) -> _Group:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _Group()
        self._groups.move_to_end(group_id)
        return group

    def _shrink(self, group_id: int) -> None:
        total = sum(len(one.decoded) + len(one.known) for one in self._groups.values())
        while total > 2 * self._size and len(self._groups) > 1:
            _, oldest = self._groups.popitem(last=False)
            total -= len(oldest.decoded) + len(oldest.known)
        group = self._groups[group_id]
        for kept in (group.decoded, group.known):
            if len(kept) > self._size:
                for key in list(kept)[: len(kept) - self._size // 2]:
                    del kept[key]


def fresh(message: BaseMessage) -> BaseMessage:
    """Return a copy that shares nothing that can be changed."""
    made = message.__copy__()
    fields = made.__dict__
    for name, value in fields.items():
        if type(value) not in _ATOMS:
            fields[name] = copy.deepcopy(value) if value else copy.copy(value)
    if made.__pydantic_extra__:
        object.__setattr__(made, "__pydantic_extra__", copy.deepcopy(made.__pydantic_extra__))
    return made


def _is_unchanged(known: Known, message: BaseMessage) -> bool:
    if message.__pydantic_extra__:
        return False
    try:
        return known.fields == message.__dict__
    except (TypeError, ValueError):  # values that cannot be compared, such as arrays
        return False
