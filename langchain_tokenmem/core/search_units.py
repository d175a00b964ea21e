"""What an index holds: units, each with a number that says where it stands.

A unit is one message, or one part of a long message or document. Its number packs three others,
so that a range of numbers is one shelf, neighbours are found by arithmetic, and an index of
integers stays small: shelf (27 bits), seq (24 bits), part (12 bits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from langchain_core.messages import BaseMessage

PART_BITS = 12
SEQ_BITS = 24
SHELF_SHIFT = PART_BITS + SEQ_BITS
MOST_PARTS = 1 << PART_BITS
"""Parts that one message or document may have in an index."""

DOCUMENT_STEP = 8
"""Distance of two documents' sequence numbers: documents are never neighbours of one another."""


def unit_number(shelf: int, seq: int, part: int = 0) -> int:
    """Return the number of a unit.

    Example:
        >>> unit_number(1, 1) - unit_number(1, 0) == MOST_PARTS
        True
    """
    return (shelf << SHELF_SHIFT) | (seq << PART_BITS) | part


def unit_place(number: int) -> tuple[int, int, int]:
    """Return shelf, seq and part of a unit.

    Example:
        >>> unit_place(unit_number(3, 7, 2))
        (3, 7, 2)
    """
    seq = (number >> PART_BITS) & ((1 << SEQ_BITS) - 1)
    return number >> SHELF_SHIFT, seq, number & (MOST_PARTS - 1)


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose texts may be found; storage checks it in the query and on every hit.

    Attributes:
        session_id: The session that asks.
        user_id: The user who asks.
        whole_user: Whether all sessions of the user are searched, and not this session alone.
    """

    session_id: str
    user_id: str | None = None
    whole_user: bool = False


@dataclass(frozen=True, slots=True)
class Reach:
    """A scope as an index knows it.

    Attributes:
        owner: Number of the user, or of a session that has no user.
        shelves: Numbers of the shelves that may be searched, in order.
        whole: Whether these are all of the owner's.
    """

    owner: int
    shelves: tuple[int, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A text that is to be indexed: a message of the transcript or a document.

    Attributes:
        seq: Its number on its shelf.
        text: What it says.
        role: `human`, `ai`, `tool` or `system`; `document` for a document.
        created_at: When it was said, in UTC.
        message: The message as the transcript holds it; None for a document.
        name: Name of the speaker, if one is given.
        source_id: Id of the message or document.
        session_id: The session that it belongs to; None for a document of a user.
        user_id: Whose it is, if the session has an owner.
        metadata: Of a document.
        is_added: Whether the memory itself inserted it: it is never indexed.
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
    is_added: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """What the lexical index keeps of one unit.

    Attributes:
        part: Which part of its message it is, from 0.
        length: How many terms it has.
        terms: How often each term occurs in it.
    """

    part: int
    length: int
    terms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Pending:
    """A shelf with something that a sink has not taken in yet.

    Attributes:
        shelf_key: Key of the shelf.
        shelf: Its number.
        from_seq: The first number that is missing in the sink.
    """

    shelf_key: str
    shelf: int
    from_seq: int


@dataclass(frozen=True, slots=True)
class Change:
    """What a store tells its listeners after a commit.

    Attributes:
        kind: `added`, `cleared` or `erased`.
        shelves: Numbers of the shelves concerned.
    """

    kind: str
    shelves: Sequence[int] = ()
