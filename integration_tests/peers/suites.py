"""The test suites of other projects: which sdist, which folder of it, what of ours goes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Swap = Literal["saver", "middleware", "history"]


@dataclass(frozen=True)
class Suite:
    """Tests of one distribution, with a part of it replaced by ours.

    Args:
        name: Its name here and in the list of expected differences.
        distribution: Whose sdist holds the tests; the installed version is taken.
        paths: Files or folders below the sdist's root.
        swap: The part that is replaced; see `swaps.py`.
        asyncio_mode: As the project's own pytest settings have it.
    """

    name: str
    distribution: str
    paths: tuple[str, ...]
    swap: Swap
    asyncio_mode: Literal["strict", "auto"] = "auto"


_AGENTS = ("tests/unit_tests/agents",)
_HISTORY = ("tests/unit_tests/runnables/test_history.py", "tests/unit_tests/chat_history")

SUITES = (
    Suite("langgraph", "langgraph", ("tests",), "saver", asyncio_mode="strict"),
    Suite("prebuilt", "langgraph-prebuilt", ("tests",), "saver"),
    Suite("checkpoint-sqlite", "langgraph-checkpoint-sqlite", ("tests",), "saver"),
    Suite("agents-saver", "langchain", _AGENTS, "saver"),
    Suite("agents-middleware", "langchain", _AGENTS, "middleware"),
    Suite("core-history", "langchain-core", _HISTORY, "history"),
)
"""The suite of langchain-tests for retrievers needs no sdist: it runs in test_retriever.py."""
