"""A cache of the messages of threads: what each says where it is stored, and copies to give out.

Without it every step of a chat would serialize all of its messages to see which ones are new, as
other savers do: at 2,000 messages a put takes a fifth of SqliteSaver's time, a get an eighth
(`benchmarks/checkpoint_growth.py`).
"""

from __future__ import annotations

import copy
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, ne
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.namespaces import Namespace

_LISTS = 8
"""Lists of one session whose objects are remembered: graphs that run at the same time."""

_AT_ONCE = 250
"""Messages copied before other threads get their turn: less than a millisecond."""

_IMMUTABLE = frozenset({type(None), bool, int, float, str, bytes})

_State = tuple[type, dict[str, Any], Any]
_id, _fields, _extra = map(attrgetter, ("id", "__dict__", "__pydantic_extra__"))
_new, _set = object.__new__, object.__setattr__


class CachedMessage(NamedTuple):
    """A message that nobody may change.

    Attributes:
        message: The message.
        reference: Where it is stored.
        is_final: Whether it stays there: the transcript has it, or never will.
        state: Its type, fields and extra fields.
        mutable: Those of its fields that could be changed in place: name, value, and the type of
            an empty list or dict.
    """

    message: BaseMessage
    reference: int
    is_final: bool
    state: _State
    mutable: tuple[tuple[str, Any, type | None], ...]


def cached(message: BaseMessage, reference: int, *, is_final: bool) -> CachedMessage:
    """Return a message, which is nobody else's from now on, for the cache."""
    return CachedMessage(message, reference, is_final, _state(message), _mutable(message))


def copy_message(message: BaseMessage) -> BaseMessage:
    """Return a copy that shares nothing that can be changed.

    It does what pydantic's `model_copy` does, without checks, several times as fast.
    """
    return _copied(message, _mutable(message))


def copy_cached(entries: Sequence[CachedMessage]) -> list[BaseMessage]:
    """Return copies of messages; other threads get their turn while it goes on."""
    copies: list[BaseMessage] = []
    for start in range(0, len(entries), _AT_ONCE):
        if start:
            # An event loop would otherwise wait for Python's switch interval, 5 ms.
            time.sleep(0)
        some = entries[start : start + _AT_ONCE]
        copies += [_copied(entry.message, entry.mutable) for entry in some]
    return copies


def _mutable(message: BaseMessage) -> tuple[tuple[str, Any, type | None], ...]:
    return tuple(
        (name, value, type(value) if type(value) in {list, dict} and not value else None)
        for name, value in message.__dict__.copy().items()
        if type(value) not in _IMMUTABLE
    )


def _copied(message: Any, mutable: Iterable[tuple[str, Any, type | None]]) -> BaseMessage:
    fields = message.__dict__.copy()
    for name, value, empty in mutable:
        fields[name] = _copied_value(value) if empty is None else empty()
    made: BaseMessage = _new(type(message))
    extra, private = message.__pydantic_extra__, message.__pydantic_private__
    _set(made, "__dict__", fields)
    # Shared: it names the fields that were given, and that is all of them.
    _set(made, "__pydantic_fields_set__", message.__pydantic_fields_set__)
    _set(made, "__pydantic_extra__", _copied_value(extra) if extra else {})
    _set(made, "__pydantic_private__", copy.deepcopy(private) if private else private)
    return made


def _copied_value(value: Any) -> Any:
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is list:
        return [_copied_value(item) for item in [*value]]
    if kind is dict:
        return {key: _copied_value(item) for key, item in value.copy().items()}
    return copy.deepcopy(value)


def _state(message: BaseMessage) -> _State:
    return type(message), message.__dict__, message.__pydantic_extra__ or {}


def changed_places(
    entries: Sequence[CachedMessage | None], messages: Sequence[BaseMessage]
) -> list[int]:
    """Return the places of messages that are not cached, or say another thing by now."""
    before = [None if entry is None else entry.state for entry in entries]
    # All in C: every step of a chat compares all of its messages.
    now = zip(map(type, messages), map(_fields, messages), map(_extra, messages), strict=True)
    try:
        return [at for at, differs in enumerate(map(ne, before, now)) if differs]
    except (TypeError, ValueError, RecursionError):  # what cannot be compared, such as arrays
        return [at for at, pair in enumerate(zip(before, messages, strict=True)) if _differs(*pair)]


def _differs(before: _State | None, message: BaseMessage) -> bool:
    try:
        return before != _state(message)
    except (TypeError, ValueError, RecursionError):
        return True


class _KnownObjects(NamedTuple):
    """Messages of a list that are known by the very object, which is held for that."""

    is_main: bool
    entries: dict[int, tuple[BaseMessage, CachedMessage]]


@dataclass
class _Session:
    """The cached messages of one session of a thread."""

    number: int
    by_reference: dict[int, CachedMessage] = field(default_factory=dict)
    by_id: dict[str, CachedMessage] = field(default_factory=dict)
    objects: list[_KnownObjects] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many messages are kept; what the cache is bounded by."""
        return len(self.by_reference) + sum(len(known.entries) for known in self.objects)

    def add(self, entry: CachedMessage) -> None:
        """Add a message, found by its id from now on."""
        self.by_reference[entry.reference] = entry
        name = entry.message.id
        if name and isinstance(name, str):
            self.by_id[name] = entry

    def shrink(self, size: int) -> None:
        """Forget the oldest messages until half of `size` is left, if there are more."""
        while self.size > size and len(self.objects) > 1:
            del self.objects[0]
        if self.size > size:
            for reference in list(self.by_reference)[: self.size - size // 2]:
                entry = self.by_reference.pop(reference)
                if self.by_id.get(str(entry.message.id)) is entry:
                    del self.by_id[str(entry.message.id)]


class MessageCache:
    """A bounded cache of messages, safe to share between threads.

    The sessions used last stay. Nobody but the cache has its messages: those that are stored are
    copied into it, those that are read are copied out of it.

    Args:
        size: Most messages that are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()
        self._closings = 0

    def clear_if_closed(self, closings: int) -> None:
        """Forget everything if the database was closed meanwhile: it may be another one now.

        Args:
            closings: How often it was closed.
        """
        with self._lock:
            if closings != self._closings:
                self._sessions.clear()
                self._closings = closings

    def by_reference(self, namespace: Namespace) -> dict[int, CachedMessage]:
        """Return the messages of a session by reference, not to be changed."""
        with self._lock:
            return self._session(namespace).by_reference

    def find(
        self, namespace: Namespace, messages: Sequence[BaseMessage], *, is_main: bool
    ) -> tuple[list[CachedMessage | None], int]:
        """Find messages by their ids, and those without one by the very objects.

        What has no id may be said again in the same words: in the channel that is the transcript,
        only the objects of that channel are known.

        Args:
            namespace: Whose they are.
            messages: The messages, whether they still say the same or not.
            is_main: Whether they are the value of the channel that is the transcript.

        Returns:
            What is cached of each, and the place behind the last known object: what follows was
            never said before. It is 0 where no object is known.
        """
        with self._lock:
            session = self._session(namespace)
            by_id = session.by_id
            names = map(_id, messages)
            found = [by_id.get(name) if isinstance(name, str) else None for name in names]
            if all(map(_id, messages)):
                return found, 0
            known = [one.entries for one in session.objects[::-1] if one.is_main or not is_main]
        fresh_from = 0
        for at, message in enumerate(messages):
            same = next((one[id(message)] for one in known if id(message) in one), None)
            if same is not None:
                fresh_from = at + 1
                found[at] = found[at] if message.id else same[1]
        return found, fresh_from

    def add(self, namespace: Namespace, entries: Iterable[CachedMessage]) -> None:
        """Add messages that were read, or stored by a transaction that is committed."""
        with self._lock:
            session = self._session(namespace)
            for entry in entries:
                session.add(entry)
            self._shrink(session)

    def add_objects(
        self,
        namespace: Namespace,
        messages: Sequence[BaseMessage],
        entries: Sequence[CachedMessage],
        *,
        is_main: bool,
    ) -> None:
        """Remember where the objects of a list are stored: those without an id, and the last one.

        Args:
            namespace: Whose they are.
            messages: The list, as it was given out or stored.
            entries: What is cached of each.
            is_main: Whether it is the value of the channel that is the transcript.
        """
        if not messages:
            return
        pairs = [(messages[-1], entries[-1])]
        if not all(map(_id, messages)):
            pairs += (pair for pair in zip(messages, entries, strict=True) if not pair[0].id)
        held = {id(message): (message, entry) for message, entry in pairs}
        with self._lock:
            session = self._session(namespace)
            kept = [
                one
                for one in session.objects
                if not (one.entries.keys() <= held.keys() and is_main >= one.is_main)
            ]
            session.objects = [*kept, _KnownObjects(is_main, held)][-_LISTS:]
            self._shrink(session)

    def forget(self, session_id: str) -> None:
        """Forget a session."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def _session(self, namespace: Namespace) -> _Session:
        session = self._sessions.get(namespace.session_id)
        if session is None or session.number != namespace.session_number:
            session = _Session(namespace.session_number)
            self._sessions[namespace.session_id] = session
        self._sessions.move_to_end(namespace.session_id)
        return session

    def _shrink(self, session: _Session) -> None:
        total = sum(one.size for one in self._sessions.values())
        while total > self._size and len(self._sessions) > 1:
            total -= self._sessions.popitem(last=False)[1].size
        session.shrink(self._size)
