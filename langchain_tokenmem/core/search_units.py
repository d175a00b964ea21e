"""Units of the search index, hits, and the values that storage and recall exchange.

A unit is one message, or one part of a long message or document. Its number packs three others,
partition (27 bits), seq (24 bits) and part (12 bits), so that a range of numbers is one partition,
neighbours are found by arithmetic, and an index of integers stays small. A partition contains the
messages of a session, the documents of a session, or the documents of a user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Protocol, Self

from langchain_core.messages import BaseMessage

PART_BITS = 12
SEQ_BITS = 24
PARTITION_SHIFT = PART_BITS + SEQ_BITS
MOST_PARTS = 1 << PART_BITS
"""Maximum parts of one message or document in an index."""

DOCUMENT_STEP = 8
"""Distance between the sequence numbers of two documents, so that they are not neighbours."""


def pack_unit(partition: int, seq: int, part: int = 0) -> int:
    """Return the packed number of a unit.

    Example:
        >>> pack_unit(1, 1) - pack_unit(1, 0) == MOST_PARTS
        True
    """
    return (partition << PARTITION_SHIFT) | (seq << PART_BITS) | part


def unpack_unit(number: int) -> tuple[int, int, int]:
    """Return partition, seq and part of a unit.

    Example:
        >>> unpack_unit(pack_unit(3, 7, 2))
        (3, 7, 2)
    """
    seq = (number >> PART_BITS) & ((1 << SEQ_BITS) - 1)
    return number >> PARTITION_SHIFT, seq, number & (MOST_PARTS - 1)


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose texts may be found, and from which time; checked in the query and on every hit.

    Attributes:
        session_id: The searching session; may be empty if all sessions of a user are searched.
        user_id: The searching user.
        whole_user: Whether all sessions of the user are searched, not only this session.
        after: The earliest time of a text, in UTC.
        before: The time before which it was written, in UTC.
    """

    session_id: str
    user_id: str | None = None
    whole_user: bool = False
    after: datetime | None = None
    before: datetime | None = None

    def has_time(self, moment: datetime) -> bool:
        """Return whether a text from that time may be found."""
        is_late_enough = self.after is None or moment >= self.after
        return is_late_enough and (self.before is None or moment < self.before)

    def within(self, first: date, last: date) -> Scope:
        """Return this scope with texts from some days only, first to last, in UTC."""
        start = datetime.combine(first, time(), UTC)
        end = datetime.combine(last + timedelta(1), time(), UTC)
        after = start if self.after is None else max(self.after, start)
        before = end if self.before is None else min(self.before, end)
        return replace(self, after=after, before=before)


@dataclass(frozen=True, slots=True)
class ScopePartitions:
    """The partitions that a scope covers.

    Attributes:
        owner: Number of the user, or of a session without a user.
        partitions: Numbers of the partitions that may be searched, in order.
        whole: Whether these are all of the owner's.
    """

    owner: int
    partitions: tuple[int, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class IndexSource:
    """A text to index: a message of the transcript or a document.

    Attributes:
        seq: Its number in its partition.
        text: Its text.
        role: `human`, `ai`, `tool`, `system` or `document`.
        created_at: When it was written, in UTC.
        message: The message in the transcript; None for a document.
        name: Name of the speaker, if one is given.
        source_id: Id of the message or document.
        session_id: The session that it belongs to; None for a document of a user.
        user_id: Its owner, if the session has one.
        metadata: Metadata of a document.
        is_hidden: Whether the message was removed and hidden; then its text is empty.
    """

    seq: int
    text: str
    role: str
    created_at: datetime
    message: BaseMessage | None = None
    name: str | None = None
    source_id: str = ""
    session_id: str | None = None
    user_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_hidden: bool = False

    @property
    def document_id(self) -> str | None:
        """Id of the document that this is, or is a part of; None for a message.

        Callers who split a document set `metadata["document_id"]` on each part.
        """
        if self.role != "document":
            return None
        given = self.metadata.get("document_id")
        return given if isinstance(given, str) else self.source_id


@dataclass(frozen=True)
class Hit:
    """A message or document that was found.

    Attributes:
        message_id: Id of the message or document.
        session_id: Its session; None for a document of a user.
        text: Its verbatim text; for a long message, the part that matches.
        score: From 0 to about 1, comparable within one search only.
        role: `human`, `ai`, `tool`, or `document`.
        name: Name of the speaker, if any.
        created_at: When it was written, in UTC.
        seq: Its number in the session.
        part: Number of the part of a long message, from 0.
        parts: Number of parts in which the message is indexed; if there are several, `text` has
            the sentences that match.
        document_id: Id of the document, or of the one that it is a part of, from
            `metadata["document_id"]`; None for a message.
        metadata: Metadata of the document.
        lexical: Share of the query's weight (IDF) that it and its neighbours match, 0 to 1.
        cosine: Cosine similarity of the query's vector and its own; None without embeddings.
        terms: Terms of the query in its own text, in the query's order.
        is_of_time: Whether it was found by its time: the query asks what was said then.
        is_over_floor: Whether it has enough in common with the query to be found alone; if not, it
            is shown because another hit has.
    """

    message_id: str
    session_id: str | None
    text: str
    score: float
    role: str
    name: str | None
    created_at: datetime
    seq: int
    part: int = 0
    parts: int = 1
    document_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    lexical: float = 0.0
    cosine: float | None = None
    terms: tuple[str, ...] = ()
    is_of_time: bool = False
    is_over_floor: bool = False

    @property
    def why(self) -> str:
        """Explanation in words of why it was found.

        Example:
            >>> about = {"role": "human", "name": None, "created_at": datetime.min, "seq": 1}
            >>> Hit("m1", "s1", "text", 0.9, **about, lexical=0.6, terms=("licenc",)).why
            'has "licenc", 60 % of the question; below the floor'
        """
        if self.is_of_time:
            return "said at the time that the question names"
        own = ", ".join(f'"{term}"' for term in self.terms)
        share = f"{self.lexical:.0%}".replace("%", " %")
        found = f"has {own}, {share} of the question" if own else ""
        if not own and self.lexical:
            found = f"its neighbours have {share} of the question"
        near = "" if self.cosine is None else f"meaning {self.cosine:.2f}"
        if not (found or near):
            return ""
        floor = "above the floor" if self.is_over_floor else "below the floor"
        return "; ".join(filter(None, (found, near, floor)))

    @classmethod
    def of(cls, source: IndexSource, score: float, **more: Any) -> Self:
        """Return a hit for a text."""
        return cls(
            message_id=source.source_id,
            session_id=source.session_id,
            score=score,
            role=source.role,
            name=source.name,
            created_at=source.created_at,
            seq=source.seq,
            metadata=source.metadata,
            **{"text": source.text, **more},
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """Terms of one unit in the lexical index.

    Attributes:
        part: Number of the part in its message, from 0.
        length: Number of its terms.
        terms: Number of occurrences of each term.
        elaborates: Whether it is a part of a long answer, which counts less than a short
            statement.
    """

    part: int
    length: int
    terms: Mapping[str, int]
    elaborates: bool = False


class Analyser(Protocol):
    """Turns texts into the terms of the lexical index."""

    @property
    def version(self) -> str:
        """Version of the analysis; a new version requires a new index."""
        ...

    def entries(self, source: IndexSource) -> Sequence[Entry]:
        """Return an entry for each part of a text; none if it must not be found."""
        ...


@dataclass(frozen=True, slots=True)
class Unindexed:
    """A session that an index (`lexical`, `vectors`) does not fully contain.

    Attributes:
        partition: Number of the session.
        from_seq: Number of the first message that is missing from the index.
    """

    partition: int
    from_seq: int


@dataclass(frozen=True, slots=True)
class Change:
    """A commit, as reported to the listeners of a store.

    Attributes:
        kind: `added`, `cleared` or `erased`.
        partitions: Numbers of the affected partitions.
    """

    kind: str
    partitions: Sequence[int] = ()
