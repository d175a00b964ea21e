"""Exports and imports sessions as lines of JSON: a head with the state, then one per wording."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection, select

from langchain_tokenmem.core.messages import marks_of
from langchain_tokenmem.errors import (
    CorruptStoreError,
    HistoryImportError,
    ScopeError,
    StoreError,
    TokenMemoryError,
)
from langchain_tokenmem.state import load_state
from langchain_tokenmem.storage.database import Database
from langchain_tokenmem.storage.import_sources import PAGE
from langchain_tokenmem.storage.importing import ImportReport, PageMessage, PageWriter, Progress
from langchain_tokenmem.storage.message_json import (
    UNDATED,
    EncodedMessage,
    checked_message,
    from_json,
    to_json,
)
from langchain_tokenmem.storage.sessions import Session, find
from langchain_tokenmem.storage.tables import messages
from langchain_tokenmem.storage.transcripts import read

FORMAT = "tokenmem_export"
"""Key of the head of an export; its value is the version of the format."""
VERSION = 1

_Line = TypeVar("_Line", bound=BaseModel)

Line = str | tuple[str, str]
"""A line of an export, or a pair of its place as text, for errors, and the line."""


class _Head(BaseModel, extra="ignore"):
    tokenmem_export: int
    session_id: str
    user_id: str | None
    first: int
    count: int
    settings: dict[str, Any] | None
    state: dict[str, Any] | None


class _Wording(BaseModel, extra="ignore"):
    seq: int
    created_at: str
    has_own_id: bool
    is_shown: bool
    message: dict[str, Any]


# --- export


def export_lines(database: Database, session_id: str, user_id: str | None) -> Iterator[str]:
    """Yield the lines of a session, each page read in its own transaction.

    Messages appended meanwhile are not included.

    Raises:
        ScopeError: When there is no such session, or it belongs to another user.
        StoreError: When it was cleared meanwhile.
        CorruptStoreError: When a part of it is damaged.
    """
    about = f"Session {session_id!r}"
    with database.reading(about) as connection:
        head = _found(connection, session_id, user_id)
    first_line = _Head(
        tokenmem_export=VERSION,
        session_id=head.name,
        user_id=head.user_id,
        first=head.first_seq,
        count=head.count,
        settings=None if head.settings is None else from_json(head.settings),
        state=None if head.state is None else from_json(head.state),
    )
    yield json.dumps(dict(first_line))
    for start in range(head.first_seq, head.last_seq + 1, PAGE):
        last = min(start + PAGE - 1, head.last_seq)
        with database.reading(about) as connection:
            session = _found(connection, session_id, user_id)
            if session.first_seq != head.first_seq:
                raise StoreError(f"{about} was cleared during the export; export it again.")
            read(connection, session, start, last)  # raises if one is damaged or missing
            own = (messages.c.session == session.id, messages.c.seq.between(start, last))
            query = select(messages).where(*own).order_by(messages.c.seq, messages.c.number)
            rows = connection.execute(query).all()
        for row in rows:
            wording = _Wording(
                seq=row.seq,
                created_at=row.created_at,
                has_own_id=bool(row.has_own_id),
                is_shown=bool(row.is_shown),
                message=from_json(row.message),
            )
            yield json.dumps(dict(wording))


def _found(connection: Connection, session_id: str, user_id: str | None) -> Session:
    session = find(connection, session_id, user_id)
    if session is None:
        raise ScopeError(f"There is no session {session_id!r} in this store.")
    return session


# --- import


def import_lines(
    writer_of: Any,
    lines: Iterable[Line],
    session_id: str | None,
    *,
    user_id: str | None,
    progress: Progress | None,
) -> ImportReport:
    """Create a session from the lines of an export.

    Args:
        writer_of: Returns a `PageWriter` for a session's id, its owner, a time and a number.
        lines: The lines.
        session_id: Another id for the session.
        user_id: Another owner.
        progress: Called after each page with the number of imported messages.

    Raises:
        HistoryImportError: When a line is not part of an export.
    """
    numbered = (
        (f"line {number}", one) if isinstance(one, str) else one
        for number, one in enumerate(lines, 1)
    )
    head = _head(next(numbered, ("line 1", "")))
    now = datetime.now(UTC)
    writer: PageWriter = writer_of(
        session_id or head.session_id, user_id or head.user_id, now, head.first
    )
    first_id = None
    for stored in writer.store_all(_messages(numbered, head.first), progress):
        first_id = first_id or stored[0].id
    if first_id is None:
        writer.store([])
    if (done := writer.report.done) != head.count:
        what = f"The export ends after {done:,} of {head.count:,} messages."
        raise HistoryImportError(what, "end", done)
    state = None if head.state is None else load_state(head.state)
    writer.begin_with(first_id, state, head.settings)
    return writer.report


def _head(numbered: tuple[str, str]) -> _Head:
    where, line = numbered
    value = parsed_json(line, where)
    if not isinstance(value, dict) or FORMAT not in value:
        raise HistoryImportError(f"An export begins with a line that contains {FORMAT!r}.", where)
    if value[FORMAT] != VERSION:
        raise HistoryImportError(
            f"The export has version {value[FORMAT]!r}, this package reads {VERSION}. Upgrade "
            f"langchain-tokenmem.",
            where,
        )
    head = _checked(_Head, value, where)
    try:
        load_state(head.state)
    except CorruptStoreError as error:
        raise HistoryImportError(str(error), where) from error
    return head


def _messages(numbered: Iterable[tuple[str, str]], first: int) -> Iterator[PageMessage]:
    """Yield the messages of an export, each with all of its wordings."""
    wordings = (
        (_checked(_Wording, parsed_json(line, where), where), where) for where, line in numbered
    )
    groups = groupby(wordings, key=lambda pair: pair[0].seq)
    for seq, (number, some) in enumerate(groups, first):
        found = list(some)
        if number != seq:
            raise HistoryImportError(f"This is message {number}, {seq} is missing.", found[0][1])
        yield _exported(found)


def _exported(found: Sequence[tuple[_Wording, str]]) -> PageMessage:
    encoded = []
    for wording, where in found:
        try:
            message = checked_message(to_json(wording.message)[0])
            time = datetime.fromisoformat(wording.created_at).astimezone(UTC)
            given = message if wording.has_own_id else message.model_copy(update={"id": None})
            is_dated = UNDATED not in marks_of(message)
            row = EncodedMessage(given, message.id, created_at=time, is_dated=is_dated)
            _ = row.encoding
        except (TokenMemoryError, ValueError, TypeError, AttributeError) as error:
            raise HistoryImportError(f"It is not a message ({error!r:.200}).", where) from error
        encoded.append((row, wording.is_shown))
    (row, is_shown), *others = encoded
    return PageMessage(row, str(found[0][0].seq), is_shown=is_shown, others=others)


def parsed_json(text: str, where: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        HistoryImportError: When it cannot be read; the error names the line if there are several.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if "\n" in text.rstrip("\n"):
            where = f"{where}, line {error.lineno}"
        raise HistoryImportError(f"It is not JSON ({error}).", where) from error
    except RecursionError as error:
        raise HistoryImportError("It is nested too deeply.", where) from error
    except ValueError as error:  # a number of more than 4,300 digits
        raise HistoryImportError(f"It cannot be read ({error}).", where) from error


def _checked(kind: type[_Line], value: Any, where: str) -> _Line:
    try:
        return kind.model_validate(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the line"
        raise HistoryImportError(
            f"It is not a line of an export ({place}: {first['msg']}).", where
        ) from None
