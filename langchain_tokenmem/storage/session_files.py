"""A session as lines of JSON, and back: a head with its state, then a line for each wording."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, select
from typing_extensions import TypedDict

from langchain_tokenmem.core.messages import marks_of
from langchain_tokenmem.errors import (
    ConfigurationError,
    CorruptStoreError,
    HistoryImportError,
    ScopeError,
    StoreError,
)
from langchain_tokenmem.state import load_state
from langchain_tokenmem.storage.database import Database
from langchain_tokenmem.storage.importing import (
    ImportReport,
    PageMessage,
    PageWriter,
    Progress,
)
from langchain_tokenmem.storage.message_json import (
    UNDATED,
    EncodedMessage,
    checked_message,
    from_json,
    to_json,
)
from langchain_tokenmem.storage.sessions import Session, find
from langchain_tokenmem.storage.tables import messages
from langchain_tokenmem.storage.transcripts import add_wordings, hide, read, read_named

FORMAT = "tokenmem_export"
"""Key of the head of an export; its value is the version of the form."""
VERSION = 1

_PAGE = 500

Line = str | tuple[str, str]
"""A line of an export; or its place in words, for errors, and the line."""


class _Head(TypedDict):
    tokenmem_export: int
    session_id: str
    user_id: str | None
    first: int
    count: int
    settings: dict[str, Any] | None
    state: dict[str, Any] | None


class _Wording(TypedDict):
    seq: int
    created_at: str
    has_own_id: bool
    is_shown: bool
    message: dict[str, Any]


# --- export


def export_lines(database: Database, session_id: str, user_id: str | None) -> Iterator[str]:
    """Yield the lines of a session, each page read in a transaction of its own.

    What is appended meanwhile is not part of it.

    Raises:
        ScopeError: When there is no such session, or it belongs to another user.
        StoreError: When it was cleared meanwhile.
        CorruptStoreError: When something of it is damaged.
    """
    about = f"Session {session_id!r}"
    with database.reading(about) as connection:
        head = _found(connection, session_id, user_id)
    yield _head_line(head)
    for start in range(head.first_seq, head.last_seq + 1, _PAGE):
        last = min(start + _PAGE - 1, head.last_seq)
        with database.reading(about) as connection:
            session = _found(connection, session_id, user_id)
            if session.first_seq != head.first_seq:
                raise StoreError(f"{about} was cleared while it was exported; export it again.")
            read(connection, session, start, last)  # raises where one is damaged or missing
            own = (messages.c.session == session.id, messages.c.seq.between(start, last))
            query = select(messages).where(*own).order_by(messages.c.seq, messages.c.number)
            rows = connection.execute(query).all()
        for row in rows:
            wording: _Wording = {
                "seq": row.seq,
                "created_at": row.created_at,
                "has_own_id": bool(row.has_own_id),
                "is_shown": bool(row.is_shown),
                "message": from_json(row.message),
            }
            yield json.dumps(wording)


def _found(connection: Connection, session_id: str, user_id: str | None) -> Session:
    session = find(connection, session_id, user_id)
    if session is None:
        raise ScopeError(f"There is no session {session_id!r} in this store.")
    return session


def _head_line(session: Session) -> str:
    head: _Head = {
        "tokenmem_export": VERSION,
        "session_id": session.name,
        "user_id": session.user_id,
        "first": session.first_seq,
        "count": session.count,
        "settings": None if session.settings is None else from_json(session.settings),
        "state": None if session.state is None else from_json(session.state),
    }
    return json.dumps(head)


# --- import


@dataclass(frozen=True)
class _Exported:
    """A message of an export: its first wording, the others, and whether the first is shown."""

    message: PageMessage
    others: Sequence[tuple[EncodedMessage, bool]]
    is_shown: bool


def import_lines(
    writer_of: Any,
    lines: Iterable[Line],
    session_id: str | None,
    *,
    user_id: str | None,
    progress: Progress | None,
) -> ImportReport:
    """Make a session of the lines of an export.

    Args:
        writer_of: Makes a `PageWriter` of a session's id, its owner and a time.
        lines: The lines.
        session_id: Another name for the session.
        user_id: Another owner.
        progress: Called after each page with the number of messages that are done.

    Raises:
        HistoryImportError: When a line is none of an export.
    """
    numbered = (
        (f"line {number}", one) if isinstance(one, str) else one
        for number, one in enumerate(lines, 1)
    )
    head = _head(next(numbered, ("line 1", "")))
    now = datetime.now(UTC)
    writer: PageWriter = writer_of(
        session_id or head["session_id"], user_id or head["user_id"], now
    )
    first_id = None
    try:
        for page in _pages(numbered, head):
            first_id = first_id or page[0].message.message_id
            _store(writer, page, head["first"], now)
            if progress is not None:
                progress(writer.report.done)
    except HistoryImportError as error:
        raise HistoryImportError(error.what, error.where, writer.report.done) from error
    if first_id is None:
        _store(writer, [], head["first"], now)
    state, settings = (
        None if value is None else to_json(value)[0] for value in (head["state"], head["settings"])
    )
    writer.begin_with(first_id, state, settings)
    return writer.report


def _head(numbered: tuple[str, str]) -> _Head:
    where, line = numbered
    value = _parsed(line, where)
    if not isinstance(value, dict) or FORMAT not in value:
        raise HistoryImportError(f"An export begins with a line that has {FORMAT!r}.", where)
    if value[FORMAT] != VERSION:
        raise HistoryImportError(
            f"The export has version {value[FORMAT]!r}, this package reads {VERSION}. Upgrade "
            f"langchain-tokenmem.",
            where,
        )
    head: _Head = _checked(_Head, value, where)
    try:
        load_state(head["state"])
    except CorruptStoreError as error:
        raise HistoryImportError(str(error), where) from error
    return head


def _pages(numbered: Iterable[tuple[str, str]], head: _Head) -> Iterator[list[_Exported]]:
    page: list[_Exported] = []
    seq = head["first"]
    wordings = ((_wording(line, where), where) for where, line in numbered)
    for number, some in groupby(wordings, key=lambda pair: pair[0]["seq"]):
        found = list(some)
        if number != seq:
            raise HistoryImportError(f"This is message {number}, {seq} is missing.", found[0][1])
        page.append(_exported(found))
        seq += 1
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page
    if seq != head["first"] + head["count"]:
        raise HistoryImportError(
            f"The export ends after {seq - head['first']:,} of {head['count']:,} messages.", "end"
        )


def _wording(line: str, where: str) -> _Wording:
    found: _Wording = _checked(_Wording, _parsed(line, where), where)
    return found


def _exported(found: Sequence[tuple[_Wording, str]]) -> _Exported:
    encoded = []
    for wording, where in found:
        try:
            message = checked_message(to_json(wording["message"])[0])
            time = datetime.fromisoformat(wording["created_at"]).astimezone(UTC)
            given = message if wording["has_own_id"] else message.model_copy(update={"id": None})
            is_dated = UNDATED not in marks_of(message)
            row = EncodedMessage(given, message.id, created_at=time, is_dated=is_dated)
            _ = row.encoding
        except (
            ConfigurationError,
            CorruptStoreError,
            ValueError,
            TypeError,
            AttributeError,
        ) as error:
            raise HistoryImportError(f"It is no message ({error!r:.200}).", where) from error
        encoded.append((row, wording["is_shown"]))
    first, *others = encoded
    page_message = PageMessage(first[0], first[0].stored.id or "", str(found[0][0]["seq"]))
    return _Exported(page_message, others, first[1])


def _store(writer: PageWriter, page: list[_Exported], first: int, now: datetime) -> None:
    """Store a page with its edits; a new session gets the numbers of the exported one."""

    def prepare(session: Session) -> None:
        if not session.last_seq and session.state is None:
            session.first_seq = session.words_from = session.vectors_from = first
            session.last_seq = first - 1

    def finish(connection: Connection, session: Session) -> None:
        edited = {one.message.message_id: one for one in page if one.others or not one.is_shown}
        rows = read_named(connection, session, edited)
        held = [row.seq for row in rows]
        changed = [row for row in rows if held.count(row.seq) == 1 and row.is_shown]
        for row in changed:
            one = edited[row.message.id or ""]
            if not one.is_shown:
                hide(connection, session, [row.seq])
            add_wordings(connection, session, row.seq, one.others, now)
        if changed:
            session.edits += len(changed)
            writer.index.edited(connection, session, [row.seq for row in changed])

    writer.store([one.message for one in page], prepare=prepare, finish=finish)


def _parsed(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise HistoryImportError(f"It is no JSON ({error!r:.200}).", where) from error


@cache
def _schema(kind: Any) -> TypeAdapter[Any]:
    """Return the check of a line; built at the first one, which keeps the import light."""
    return TypeAdapter(kind)


def _checked(kind: Any, value: Any, where: str) -> Any:
    try:
        return _schema(kind).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the line"
        raise HistoryImportError(
            f"It is no line of an export ({place}: {first['msg']}).", where
        ) from None
