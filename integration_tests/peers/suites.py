"""The test suites of other projects: which sdist, which folder of it, what of ours goes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Swap = Literal["saver", "middleware", "history", "sql_store", "json_store"]


@dataclass(frozen=True)
class Suite:
    """Tests of one distribution, with a part of it replaced by ours.

    Args:
        name: Its name here and in the list of expected differences.
        distribution: Whose sdist holds the tests; the installed version is taken.
        paths: Files or folders below the sdist's root.
        swap: The part that is replaced; see `swaps.py`.
        asyncio_mode: As the project's own pytest settings have it.
        without: Fixtures of tests that are not for ours.
    """

    name: str
    distribution: str
    paths: tuple[str, ...]
    swap: Swap
    asyncio_mode: Literal["strict", "auto"] = "auto"
    without: tuple[str, ...] = ()


_AGENTS = ("tests/unit_tests/agents",)
_STORES = ("tests/test_store.py", "tests/test_async_store.py")
_VECTORS = ("fake_embeddings",)
"""Our stores have no vectors."""
_HISTORY = ("tests/unit_tests/runnables/test_history.py", "tests/unit_tests/chat_history")

SUITES = (
    Suite("langgraph", "langgraph", ("tests",), "saver", asyncio_mode="strict"),
    Suite("prebuilt", "langgraph-prebuilt", ("tests",), "saver"),
    Suite("checkpoint-sqlite", "langgraph-checkpoint-sqlite", ("tests",), "saver"),
    Suite("agents-saver", "langchain", _AGENTS, "saver"),
    Suite("agents-middleware", "langchain", _AGENTS, "middleware"),
    Suite("core-history", "langchain-core", _HISTORY, "history"),
    Suite("store-sql", "langgraph-checkpoint", _STORES[:1], "sql_store", without=_VECTORS),
    Suite("store-json", "langgraph-checkpoint", _STORES[:1], "json_store", without=_VECTORS),
    Suite(
        "sqlite-store-sql", "langgraph-checkpoint-sqlite", _STORES, "sql_store", without=_VECTORS
    ),
    Suite(
        "sqlite-store-json", "langgraph-checkpoint-sqlite", _STORES, "json_store", without=_VECTORS
    ),
)
"""The suite of langchain-tests for retrievers needs no sdist: it runs in test_retriever.py."""
