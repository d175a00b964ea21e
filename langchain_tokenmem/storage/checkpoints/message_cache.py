"""A cache of the messages of threads: what each one says, and where it is stored.

Without it every step of a chat would serialize all of its messages to see which ones are new, as
other savers do. With it a put at 2,000 messages takes about a third of SqliteSaver's CPU time, a
get about a sixth (`benchmarks/checkpoint_growth.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from cachetools import LRUCache
from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.message_copies import LISTED, CachedList, CachedMessage
from langchain_tokenmem.storage.checkpoints.namespaces import Namespace

_LISTS = 8
"""Lists of one session that are remembered: graphs that run at the same time."""

_SESSION = 1_500
"""Bytes that a session takes beside its messages, as `tracemalloc` has it."""

_WORTH = 16
"""Messages in a list that is worth remembering as one."""


class FoundMessages(NamedTuple):
    """The cached messages of a list.

    Attributes:
        begin: Cached messages that the list begins with, unchanged; may be empty.
        entries: The cached messages for those behind these, found by id, or by the very object
            where there is none; the list may have changed what they say. None for unknown ones.
        fresh_from: Place behind the last known object: what follows was never said before. It is 0
            where no object is known.
    """

    begin: CachedList
    entries: list[CachedMessage | None]
    fresh_from: int


class _KnownObjects(NamedTuple):
    """Messages of a list that are known by the very object, which is held for that."""

    is_main: bool
    entries: Mapping[int, tuple[BaseMessage, CachedMessage]]
    bytes: int


@dataclass
class _Session:
    """The cached messages of one session of a thread."""

    number: int
    by_reference: dict[int, CachedMessage] = field(default_factory=dict)
    by_id: dict[str, CachedMessage] = field(default_factory=dict)
    # By their references as they are stored, the last ones at the end.
    lists: dict[str, CachedList] = field(default_factory=dict)
    objects: list[_KnownObjects] = field(default_factory=list)
    message_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Memory that it takes, about, by which the cache is bounded.

        What the lists hold is mostly what is held by reference as well.
        """
        held = sum(known.bytes for known in self.objects)
        longest = max((one.bytes for one in self.lists.values()), default=0)
        listed = sum(len(one.entries) for one in self.lists.values()) * LISTED
        return _SESSION + max(self.message_bytes, longest) + listed + held

    def add(self, entry: CachedMessage) -> None:
        """Add a message."""
        before = self.by_reference.get(entry.reference)
        self.message_bytes += entry.size - (before.size if before else 0)
        self.by_reference[entry.reference] = entry
        if entry.message.id and isinstance(entry.message.id, str):
            self.by_id[entry.message.id] = entry


class MessageCache:
    """A bounded cache of messages, safe to share between threads.

    The sessions used last stay; one that is too large by itself is forgotten. Nobody but the cache
    has its messages: those that are stored are copied into it, those that are read are copied out
    of it.

    Args:
        most: Bytes of memory that the messages may take, about.
    """

    def __init__(self, most: int) -> None:
        self._sessions: LRUCache[str, _Session] = LRUCache(most, attrgetter("bytes"))
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

    def find(
        self, namespace: Namespace, messages: Sequence[BaseMessage], *, is_main: bool
    ) -> FoundMessages:
        """Return what is cached of messages.

        What has no id may be said again in the same words: in the channel that is the transcript,
        only the objects of that channel are known.

        Args:
            namespace: Whose they are.
            messages: The messages.
            is_main: Whether they are the value of the channel that is the transcript.
        """
        with self._lock:
            session = self._session(namespace)
            fits = [one for one in session.lists.values() if len(one.entries) <= len(messages)]
            known = [one.entries for one in session.objects[::-1] if one.is_main or not is_main]
        begin = max(fits, key=lambda one: len(one.entries), default=CachedList())
        start = len(begin.entries)
        if not (all(one.id for one in messages[start:]) and begin.equals(messages[:start])):
            begin, start = CachedList(), 0
        names = (one.id for one in messages[start:])
        entries = [session.by_id.get(name) if isinstance(name, str) else None for name in names]
        fresh_from = 0
        if start == 0 and not all(one.id for one in messages):
            for at, message in enumerate(messages):
                same = next((one[id(message)] for one in known if id(message) in one), None)
                if same is not None:
                    fresh_from = at + 1
                    entries[at] = entries[at] if message.id else same[1]
        return FoundMessages(begin, entries, fresh_from)

    def by_reference(self, namespace: Namespace) -> Mapping[int, CachedMessage]:
        """Return the messages of a session by reference."""
        with self._lock:
            return self._session(namespace).by_reference

    def listed(self, namespace: Namespace, refs: str) -> CachedList | None:
        """Return a list of messages by its references as they are stored."""
        with self._lock:
            return self._session(namespace).lists.get(refs)

    def add(self, namespace: Namespace, entries: Iterable[CachedMessage]) -> None:
        """Add messages that were read, or stored by a transaction that is committed."""
        with self._lock:
            session = self._session(namespace)
            for entry in entries:
                session.add(entry)
            self._keep(namespace, session)

    def add_list(
        self,
        namespace: Namespace,
        refs: str,
        begin: CachedList,
        more: Sequence[CachedMessage],
        messages: Sequence[BaseMessage],
        *,
        is_main: bool,
    ) -> None:
        """Remember a list, and the objects of it by which it will be known again.

        The list as a whole is remembered if all messages have ids; of its objects those without an
        id, and the last one.

        Args:
            namespace: Whose they are.
            refs: Its references as they are stored.
            begin: The messages that it begins with, of which nobody needs to know any more.
            more: All others.
            messages: The objects, as they were given out or stored.
            is_main: Whether it is the value of the channel that is the transcript.
        """
        if not messages:
            return
        with self._lock:
            session = self._session(namespace)
            found = begin.extended(more)
            if len(found.entries) >= _WORTH and found.has_ids:
                lists = session.lists.items()
                kept = [(k, one) for k, one in lists if k != refs and one is not begin]
                session.lists = dict([*kept, (refs, found)][-_LISTS:])
            pairs = [(messages[-1], found.entries[-1])]
            if not found.has_ids:
                pairs += (p for p in zip(messages, found.entries, strict=True) if not p[0].id)
            held = {id(message): (message, entry) for message, entry in pairs}
            size = sum(entry.size for _, entry in held.values())
            objects = [
                one
                for one in session.objects
                if not (one.entries.keys() <= held.keys() and is_main >= one.is_main)
            ]
            session.objects = [*objects, _KnownObjects(is_main, held, size)][-_LISTS:]
            self._keep(namespace, session)

    def forget(self, session_id: str) -> None:
        """Forget a session."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def _session(self, namespace: Namespace) -> _Session:
        session = self._sessions.get(namespace.session_id)
        if session is None or session.number != namespace.session_number:
            session = _Session(namespace.session_number)
        return session

    def _keep(self, namespace: Namespace, session: _Session) -> None:
        """Count a session anew, and forget others, used longest ago, until it has room."""
        self._sessions.pop(namespace.session_id, None)
        with suppress(ValueError):  # it is larger than all of them may be
            self._sessions[namespace.session_id] = session
