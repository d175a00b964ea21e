"""Histories to import: files of messages, SQL tables of chat histories, and the owners of sessions.

Files are in OpenAI's chat format, LangChain's JSON, or exports of this package, as JSON or JSON
Lines. Lines are read one by one; a file that is one JSON value is read whole.
"""

from __future__ import annotations

import gzip
import json
import re
import reprlib
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast, get_args

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    InvalidToolCall,
    messages_from_dict,
)
from langchain_core.messages.tool import ToolCall, invalid_tool_call, tool_call
from pydantic import TypeAdapter

from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.errors import ConfigurationError, HistoryImportError
from langchain_tokenmem.storage.import_sources import SourceMessage, sessions_in, tables_in
from langchain_tokenmem.storage.session_files import FORMAT, parsed_json

if TYPE_CHECKING:
    from langchain_tokenmem.storage.importing import ImportReport, Source
    from langchain_tokenmem.storage.transcript_store import TranscriptStore

MOST_BYTES = 1024 * 1024 * 1024
"""Maximum size of a file that is one value, unpacked: a small archive may unpack to any size."""

_LONGEST_LINE = 64 * 1024 * 1024
_TOO_LONG = (
    f"A line has more than {_LONGEST_LINE >> 20} MB, or a JSON value over several lines more than "
    f"{MOST_BYTES >> 20:,} MB; write one message per line."
)
_GZIP_MAGIC = b"\x1f\x8b"
_CLASSES = {
    get_args(tagged)[0].__name__: get_args(tagged)[0]
    for tagged in get_args(get_args(AnyMessage)[0])
}
"""Every class of messages in a transcript, by the last part of its id in LangChain's own form."""
_NO_OBJECT = "The recorded arguments are not a JSON object."


@dataclass(frozen=True)
class FileSession:
    """One session of a file; it must be read before the next one is requested.

    Attributes:
        name: The name that the file gives it, if it does.
        messages: Its messages as `SourceMessage`s, or its history; empty if it is an export.
        lines: Its lines with their places, if it is an export of this package.
        tools: Schemas of its tools, if the file gives them, in OpenAI's format.
    """

    name: str | None
    messages: Any = ()
    lines: Iterator[tuple[str, str]] | None = None
    tools: tuple[dict[str, Any], ...] = ()

    def imported_into(
        self, store: TranscriptStore, session_id: str, **options: Any
    ) -> ImportReport:
        """Import it as a session of a store; options are those of `import_history`."""
        if self.lines is None:
            return store.import_history(self.messages, session_id, **options)
        return store.import_session(self.lines, session_id, **options)


class _Part(NamedTuple):
    """A part of a file.

    Attributes:
        where: Its place.
        value: A message, a line of an export, or the fields of a session.
        begins: Whether a session begins here.
    """

    where: str
    value: Any
    begins: bool = False


_SQLITE_MAGIC = b"SQLite format 3\x00"


def is_database(source: str) -> bool:
    """Return whether a source is a database, not a file of messages; by its first bytes."""
    if "://" in source:
        return True
    with Path(source).open("rb") as file:
        return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC


def sessions_in_file(path: Path) -> Iterator[FileSession]:
    """Yield the sessions of a file.

    The file, or each of its lines, is a message, a list of messages, an object with `messages` (and
    `session_id` or `id`), or a line of an export. Separate messages are one session.

    Args:
        path: JSON or JSON Lines in UTF-8, also as `.gz`.

    Raises:
        HistoryImportError: When the file contains something else; the error names file and line.
        OSError: When it cannot be read.
    """
    with _opened(path) as file:
        parts = chain.from_iterable(_parts(where, value) for where, value in _values(path, file))
        number = 0

        def session_number(one: _Part) -> int:
            nonlocal number
            number += one.begins
            return number

        for _, group in groupby(parts, session_number):
            yield _session_of(group)


def _parts(where: str, value: Any) -> Iterator[_Part]:
    """Yield the sessions in a value, each before its messages or lines."""
    if isinstance(value, list) and value and all(map(_is_conversation, value)):
        for number, one in enumerate(value, 1):
            yield from _parts(f"{where}, session {number}", one)
        return
    if not _is_conversation(value) and not (isinstance(value, dict) and FORMAT in value):
        yield _Part(where, value)
        return
    fields = {"messages": value} if isinstance(value, list) else value
    inside = fields.get("messages", [])
    if not isinstance(inside, list):
        raise HistoryImportError("Its messages are not a list.", where)
    before = [one for one in _system_in(fields) if one not in inside[:1]]
    yield _Part(where, {key: one for key, one in fields.items() if key != "messages"}, begins=True)
    for number, one in enumerate([*before, *inside], 1 - len(before)):
        yield _Part(f"{where}, message {number}", one)


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and "messages" in value)


def _session_of(parts: Iterator[_Part]) -> FileSession:
    first = next(parts)
    if not first.begins:
        return FileSession(None, messages=_messages(chain([first], parts)))
    fields = first.value
    if FORMAT in fields:
        lines = ((one.where, json.dumps(one.value)) for one in chain([first], parts))
        name = fields.get("session_id")
        return FileSession(name if isinstance(name, str) else None, lines=lines)
    name, tools = fields.get("session_id") or fields.get("id"), fields.get("tools")
    given = tools if isinstance(tools, list) else ()
    return FileSession(
        str(name) if name else None,
        messages=_messages(parts),
        tools=tuple(one for one in given if isinstance(one, dict)),
    )


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        is_packed = file.read(2) == _GZIP_MAGIC
    return cast("IO[bytes]", gzip.open(path, "rb") if is_packed else path.open("rb"))


def _values(path: Path, file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a file, each with its place: one a line, or the one that it is."""
    lines = _lines(path, file)
    begin = next(lines, None)
    if begin is None:
        raise HistoryImportError("The file is empty.", str(path))
    where, line = begin
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):  # one value over all lines
        where, first = str(path), parsed_json(_joined(path, chain([begin], lines)), str(path))
    yield where, first
    for where, line in lines:
        yield where, parsed_json(line, where)


def _lines(path: Path, file: IO[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the lines that are not blank, with their places.

    Read as bytes: a JSON string may contain U+2028 and the like, at which a text would be split.
    """
    number = 0
    try:
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                raise HistoryImportError(_TOO_LONG, f"{path}, line {number}")
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if text.strip():
                yield f"{path}, line {number}", text
    except UnicodeDecodeError as error:
        raise HistoryImportError(f"It is not UTF-8 ({error}).", f"{path}, line {number}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        where = f"{path}, line {number + 1}"
        raise HistoryImportError(f"The rest of it cannot be read ({error}).", where) from error


def _joined(path: Path, lines: Iterable[tuple[str, str]]) -> str:
    found, size = [], 0
    for _, line in lines:
        size += len(line)
        if size > MOST_BYTES:
            raise HistoryImportError(_TOO_LONG, str(path))
        found.append(line)
    return "".join(found)


def _system_in(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the system message of a request to Anthropic, which has it beside the messages."""
    system = fields.get("system")
    blocks = system if isinstance(system, list) else [{"text": system}]
    if not system or not all(
        isinstance(one, dict) and type(one.get("text")) is str for one in blocks
    ):
        return []
    return [{"role": "system", "content": system}]


def _messages(parts: Iterable[_Part]) -> Iterator[SourceMessage]:
    for position, one in enumerate(parts):
        yield SourceMessage(message_of(one.value, one.where), str(position), one.where)


def message_of(value: Any, where: str) -> BaseMessage:
    """Return a message of any of the forms in which LangChain and OpenAI write one.

    Args:
        value: A value that was read from JSON.
        where: Its place, for the error.

    Raises:
        HistoryImportError: When it is not a message.
    """
    try:
        if not isinstance(value, dict):
            raise TypeError("It is not a JSON object.")  # noqa: TRY301
        if "lc" in value:
            made: BaseMessage = _CLASSES[value["id"][-1]](**value["kwargs"])
        elif "data" in value and "type" in value:
            (made,) = messages_from_dict([value])
        else:
            made = _from_dump(value) or _from_openai(value)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise HistoryImportError(
            f"It is not a message in a form that can be read: {reprlib.repr(value)}. "
            f"docs/importing.md lists the forms.",
            where,
        ) from error
    return made


def _from_dump(value: dict[str, Any]) -> BaseMessage | None:
    """Return the message of which a value is the `model_dump`; None if it is of another form."""
    try:
        found = _any_message().validate_python(value)
    except (ValueError, TypeError, KeyError):  # a tool message without the id of its call
        return None
    is_dump = {"content", "type"} <= value.keys() <= type(found).model_fields.keys()
    return found if is_dump else None


def _from_openai(value: dict[str, Any]) -> BaseMessage:
    if not value.get("tool_calls"):
        (made,) = as_messages([value])
        return made
    # Arguments that are not a JSON object make an invalid call; content may be left out.
    calls = [_call(call) for call in value["tool_calls"]]
    valid = [call for call in calls if call.get("type") != "invalid_tool_call"]
    (made,) = as_messages([{"content": None, **value, "tool_calls": valid}])
    invalid = [call for call in calls if call not in valid]
    return AIMessage(**{**dict(made), "invalid_tool_calls": invalid}) if invalid else made


def _call(recorded: dict[str, Any]) -> dict[str, Any] | ToolCall | InvalidToolCall:
    """Return a tool call in LangChain's form; an invalid one if its arguments are not an object."""
    if "function" not in recorded:
        return recorded
    function = recorded["function"]
    name, args, call_id = function.get("name"), function.get("arguments"), recorded.get("id")
    try:
        is_text = isinstance(args, str) and args.strip()
        parsed = json.loads(args, strict=False) if is_text else args or {}
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(name, str) and isinstance(parsed, dict):
        return tool_call(name=name, args=parsed, id=call_id)
    text = args if isinstance(args, str) else json.dumps(args)
    return invalid_tool_call(name=name or "", args=text, id=call_id, error=_NO_OBJECT)


@cache
def _any_message() -> TypeAdapter[Any]:
    """Return what validates a message of any type."""
    return TypeAdapter(AnyMessage)


MESSAGE_STORE = "message_store"
"""Name of the table unless an application has chosen another one."""

SessionOf = Callable[[str], str | tuple[str, str | None]]
"""Takes a source's name of a session; returns its id here, or a pair of it and the user's id."""


def sql_histories(
    engine: Any, table: str = MESSAGE_STORE, session_id: str | None = None
) -> Iterator[tuple[str, BaseChatMessageHistory]]:
    """Yield each session of a `SQLChatMessageHistory`'s table with its history.

    The database is only read: opening a history would create a missing table.

    Args:
        engine: SQLAlchemy's engine of the database, as `history_engine` returns it.
        table: The table.
        session_id: Only this session.

    Raises:
        ConfigurationError: When the table or session does not exist, or langchain-community is not
            installed.
    """
    there = tables_in(engine)
    if table not in there:
        raise ConfigurationError(
            f"The database has no table {table!r}; name the one of its histories with "
            f"table= or --table. There are: {', '.join(sorted(there)) or 'none'}."
        )
    found = sessions_in(engine, table)
    if session_id is not None and session_id not in found:
        raise ConfigurationError(f"Table {table!r} has no session {session_id!r}.")
    history = _sql_history_class()
    names = found if session_id is None else [session_id]
    for name in names:
        yield name, history(name, table_name=table, connection=engine)


def import_histories(
    store: TranscriptStore,
    histories: Iterable[tuple[str, Source]],
    session_of: SessionOf | None = None,
) -> list[ImportReport]:
    """Import chat histories as sessions of a store, each with its owner.

    Args:
        store: The store.
        histories: Names of sessions with their histories, such as `sql_histories` yields.
        session_of: Takes such a name; returns the session's id, or a pair of it and the user's id.
            Default: the name is the id, and the session has no owner.

    Raises:
        ScopeError: When a session of that id belongs to another user.
        HistoryImportError: When a message cannot be imported; earlier sessions stay imported.

    Example:
        >>> from langchain_tokenmem import TranscriptStore
        >>> store = TranscriptStore("sqlite://")
        >>> histories = [("ann--1", [("human", "hi")])]
        >>> owner = lambda name: (name, name.partition("--")[0])
        >>> [report.session_id for report in import_histories(store, histories, owner)]
        ['ann--1']
        >>> store.sessions(user_id="ann")
        ['ann--1']
    """
    done = []
    for name, history in histories:
        session_id, user_id = session_and_owner(name, session_of)
        done.append(store.import_history(history, session_id, user_id=user_id))
    return done


def session_and_owner(name: str, session_of: SessionOf | None) -> tuple[str, str | None]:
    """Return the ids of a session and its user; without a function, the name and None."""
    found = name if session_of is None else session_of(name)
    return (found, None) if isinstance(found, str) else found


def by_pattern(pattern: str) -> SessionOf:
    """Return a function that reads the user in a session's name.

    Args:
        pattern: A regular expression of whole names. Its group `user` is the user; its group
            `session`, if it has one, the session's id instead of the whole name.

    Raises:
        ConfigurationError: When it is not a regular expression, or has no group `user`; the
            function raises it for a name that does not match, so that no session is left without an
            owner.

    Example:
        >>> by_pattern("(?P<user>.+?)--.+")("ann--chat-1")
        ('ann--chat-1', 'ann')
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"{pattern!r} is not a regular expression: {error}.") from error
    if "user" not in compiled.groupindex:
        raise ConfigurationError(
            f"{pattern!r} has no group for the user; write it as (?P<user>.+?)--.+"
        )

    def session_of(name: str) -> tuple[str, str | None]:
        found = compiled.fullmatch(name)
        if found is None:
            raise ConfigurationError(
                f"Session {name!r} does not match {pattern!r}, so its owner is not known. Widen "
                f"the pattern, and run the import again: what is already imported stays as it is."
            )
        own = found.groupdict()
        return own.get("session") or name, own["user"]

    return session_of


def _sql_history_class() -> Any:
    """Import langchain-community without its warning that it is no longer maintained."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*langchain-community", DeprecationWarning)
            from langchain_community.chat_message_histories import (  # noqa: PLC0415
                SQLChatMessageHistory,
            )
    except ImportError as error:
        raise ConfigurationError(
            f"To read SQL histories langchain-community is needed ({error.name or error}): "
            f"pip install 'langchain-tokenmem[community]'."
        ) from error
    return SQLChatMessageHistory
