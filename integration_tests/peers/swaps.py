"""Stand-ins that take the places of LangGraph's and LangChain's own parts in their tests.

Each has the constructor of the part that it replaces and nothing of its behaviour.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self

from langchain_tokenmem import TokenMemoryMiddleware, TokenMemorySaver, TranscriptStore

MADE: list[str] = []
"""Each stand-in that was made, so that a run can say how many there were."""


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


def with_our_middleware(create_agent: Callable[..., Any]) -> Callable[..., Any]:
    """Return `create_agent` with a `TokenMemoryMiddleware` behind the middleware it is given."""

    def create(*args: Any, middleware: Sequence[Any] = (), **options: Any) -> Any:
        MADE.append("middleware")
        return create_agent(*args, middleware=[*middleware, TokenMemoryMiddleware()], **options)

    return create
