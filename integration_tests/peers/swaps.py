"""Stand-ins that take the places of LangGraph's and LangChain's own parts in their tests.

Each has the constructor of the part that it replaces and nothing of its behaviour.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self

from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import BaseMessage

from langchain_tokenmem import (
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.notes import JsonStore, SqlStore

MADE: list[str] = []
"""Each stand-in that was made, so that a run can say in how many tests one was."""


class Saver(TokenMemorySaver):
    """Our saver on a database of its own, made as `InMemorySaver` and `SqliteSaver` are."""

    def __init__(self, *_: Any, serde: Any = None, **__: Any) -> None:
        super().__init__(TranscriptStore("sqlite://", shared=True), serde=serde)
        MADE.append("saver")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.aclose()

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str) -> Iterator[Saver]:
        with cls() as saver:
            yield saver


class AsyncSaver(Saver):
    """The same in the place of `AsyncSqliteSaver`."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, _: str
    ) -> AsyncIterator[Saver]:
        async with cls() as saver:
            yield saver


@contextmanager
def checkpointer_fixture() -> Iterator[Saver]:
    """Stand for `_checkpointer_memory` in the conftest files."""
    with Saver() as saver:
        yield saver


@asynccontextmanager
async def async_checkpointer_fixture() -> AsyncIterator[Saver]:
    """Stand for `_checkpointer_memory_aio`."""
    async with Saver() as saver:
        yield saver


class SqlStandIn(SqlStore):
    """Our store on a database of its own, made as `InMemoryStore` and `SqliteStore` are."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(TranscriptStore("sqlite://", shared=True))
        MADE.append("store")

    def setup(self) -> None:
        """Do nothing: the tables are made on first use."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str, **options: Any) -> Iterator[Any]:
        yield cls(**options)


class JsonStandIn(JsonStore):
    """Our store in a folder of its own."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(tempfile.mkdtemp())
        MADE.append("store")

    setup = SqlStandIn.setup
    from_conn_string = SqlStandIn.__dict__["from_conn_string"]


class AsyncStandIn:
    """What `AsyncSqliteStore` has as coroutines."""

    async def setup(self) -> None:
        """Do nothing."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _: str, **options: Any) -> AsyncIterator[Any]:
        yield cls(**options)


class AsyncSqlStandIn(AsyncStandIn, SqlStandIn):  # type: ignore[misc]
    """Our database in the place of `AsyncSqliteStore`."""


class AsyncJsonStandIn(AsyncStandIn, JsonStandIn):  # type: ignore[misc]
    """Our files in the place of `AsyncSqliteStore`."""


SYNC_AND_ASYNC = {
    "saver": (Saver, AsyncSaver),
    "sql_store": (SqlStandIn, AsyncSqlStandIn),
    "json_store": (JsonStandIn, AsyncJsonStandIn),
}
"""Stand-ins by swap: those of sync classes, and those of async ones."""


class History(TokenMemoryChatHistory):
    """Our history, made as `InMemoryChatMessageHistory` is and equal to one of equal messages.

    Ours gives messages ids and marks, so types and contents are what is compared.
    """

    __doc__ = InMemoryChatMessageHistory.__doc__  # two tests read it
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, messages: Sequence[BaseMessage] = ()) -> None:
        super().__init__(uuid.uuid4().hex, store=TranscriptStore("sqlite://", shared=True))
        MADE.append("history")
        if messages:
            self.add_messages(messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and _said(self) == _said(other)


def _said(history: History) -> list[tuple[str, Any]]:
    return [(message.type, message.content) for message in history.messages]


def with_our_middleware(create_agent: Callable[..., Any]) -> Callable[..., Any]:
    """Return `create_agent` with a `TokenMemoryMiddleware` behind the middleware it is given."""

    def create(*args: Any, middleware: Sequence[Any] = (), **options: Any) -> Any:
        MADE.append("middleware")
        return create_agent(*args, middleware=[*middleware, TokenMemoryMiddleware()], **options)

    return create
