"""Makes a session of the lines of an export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any, NotRequired

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection
from typing_extensions import TypedDict

from langchain_tokenmem.core.messages import marks_of
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import (
    ConfigurationError,
    CorruptStoreError,
    HistoryImportError,
)
from langchain_tokenmem.state import load_state
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.database.json_values import to_json
from langchain_tokenmem.storage.imports.exporting import FORMAT, VERSION
from langchain_tokenmem.storage.imports.page_writer import (
    ImportReport,
    PageMessage,
    PageWriter,
    Progress,
)
from langchain_tokenmem.storage.imports.sources import PAGE
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.edits import MessageEdit, copy_edits
from langchain_tokenmem.storage.transcripts.encoded_message import (
    UNDATED,
    EncodedMessage,
    decoded_message,
)
from langchain_tokenmem.storage.transcripts.message_rows import read_named
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, save

Line = str | tuple[str, str]
"""A line of an export; or its place in words, for errors, and the line."""


class _Head(TypedDict):
    tokenmem_export: int
    session_id: str
    user_id: str | None
    first: int
    count: int
    budget: dict[str, Any] | None
    state: dict[str, Any] | None


class _Edit(TypedDict):
    version: int
    is_current: bool
    created_at: str
    message: dict[str, Any] | None


class _ExportLine(TypedDict):
    seq: int
    created_at: str
    has_own_id: bool
    message: dict[str, Any]
    edits: NotRequired[list[_Edit]]


@dataclass(frozen=True)
class _Exported:
    """A message of an export, and its edits."""

    message: PageMessage
    edits: tuple[MessageEdit, ...]


def import_lines(
    store: tuple[Database, IndexStore],
    lines: Iterable[Line],
    session_id: str | None,
    *,
    user_id: str | None,
    progress: Progress | None,
) -> ImportReport:
    """Make a session of the lines of an export.

    Raises:
        HistoryImportError: When a line is none of an export.
    """
    numbered = (
        (f"line {number}", one) if isinstance(one, str) else one
        for number, one in enumerate(lines, 1)
    )
    head = _head(next(numbered, ("line 1", "")))
    database, index = store
    writer = PageWriter(
        database,
        index,
        session_id or head["session_id"],
        user_id=user_id or head["user_id"],
        now=datetime.now(UTC),
    )
    first_id = None
    try:
        for page in _pages(numbered, head):
            first_id = first_id or page[0].message.message_id
            _store(writer, page, head["first"])
            if progress is not None:
                progress(writer.report.done)
    except HistoryImportError as error:
        raise HistoryImportError(error.what, error.where, writer.report.done) from error
    if first_id is None:
        _store(writer, [], head["first"])
    state, budget = (
        None if value is None else to_json(value)[0] for value in (head["state"], head["budget"])
    )
    writer.begin_with(first_id, state, budget)
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


def _pages(numbered: Iterator[tuple[str, str]], head: _Head) -> Iterator[list[_Exported]]:
    seq = head["first"]
    while some := list(islice(numbered, PAGE)):
        page = []
        for where, line in some:
            page.append(_exported(line, seq, where))
            seq += 1
        yield page
    if seq != head["first"] + head["count"]:
        raise HistoryImportError(
            f"The export ends after {seq - head['first']:,} of {head['count']:,} messages.", "end"
        )


def _exported(line: str, seq: int, where: str) -> _Exported:
    found: _ExportLine = _checked(_ExportLine, _parsed(line, where), where)
    if found["seq"] != seq:
        raise HistoryImportError(f"This is message {found['seq']}, {seq} is missing.", where)
    try:
        message = decoded_message(json.dumps(found["message"]))
        name, time = message.id, datetime.fromisoformat(found["created_at"]).astimezone(UTC)
        is_dated = UNDATED not in marks_of(message)
        given = message if found["has_own_id"] else message.model_copy(update={"id": None})
        row = EncodedMessage(given, name, created_at=time, is_dated=is_dated)
        _ = row.encoding
        edits = tuple(_edit(one, seq) for one in found.get("edits", ()))
    except (ConfigurationError, CorruptStoreError, ValueError, TypeError, AttributeError) as error:
        raise HistoryImportError(f"It is no message ({error!r:.200}).", where) from error
    return _Exported(PageMessage(row, name or "", str(seq)), edits)


def _edit(one: _Edit, seq: int) -> MessageEdit:
    text = None if one["message"] is None else json.dumps(one["message"])
    if text is not None:
        decoded_message(text)
    return MessageEdit("", seq, one["version"], one["is_current"], one["created_at"], text)


def _store(writer: PageWriter, page: list[_Exported], first: int) -> None:
    """Store a page with its edits; a new session gets the numbers of the exported one."""

    def prepare(connection: Connection, session: SessionRow) -> SessionRow:
        if session.last_seq or session.state is not None:
            return session
        session = replace(session, first_seq=first, last_seq=first - 1)
        save(connection, session)
        return session

    def finish(connection: Connection, session: SessionRow) -> Change | None:
        names = {one.message.message_id: one.edits for one in page if one.edits}
        if not names:
            return None
        rows = read_named(connection, session, [*names])
        given = {row.seq: names[row.message.id or ""] for row in rows}
        return copy_edits(connection, writer.index, session, rows, given)

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
