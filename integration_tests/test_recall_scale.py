"""A long history: what a search and an append ask of the database does not grow with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import event
from sqlalchemy.engine import Engine

from langchain_tokenmem import Recall, TranscriptStore

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from _talk import Talk

SMALL, LARGE = 200, 6_000
PLANTED = "The vault opens with the crimson heron phrase."


@contextmanager
def statements() -> Iterator[list[str]]:
    """Note every statement that reaches a database."""
    seen: list[str] = []

    def note(_connection, _cursor, statement, *_others) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[TranscriptStore]:
    """A short session and a long one; both begin with the one sentence that matters."""
    talk = Talk(5)
    folder = tmp_path_factory.mktemp("scale")
    with TranscriptStore(f"sqlite:///{folder}/memory.db") as opened, Recall(opened):
        opened.add("short", [HumanMessage(PLANTED)], user_id="u")
        opened.add("short", [talk.message(n, words=8) for n in range(SMALL)], user_id="u")
        opened.add("long", [HumanMessage(PLANTED)], user_id="u")
        for start in range(0, LARGE, 1_000):
            new = [talk.message(n, words=8) for n in range(start, start + 1_000)]
            opened.add("long", new, user_id="u")
        yield opened


def test_a_search_asks_as_little_of_a_long_history_as_of_a_short_one(store):
    with Recall(store) as recall:
        recall.index()
        asked = {}
        for session_id in ("short", "long"):
            with statements() as seen:
                assert recall.search("the crimson heron phrase of the vault", session_id=session_id)
            asked[session_id] = len(seen)
    print(asked)
    assert asked["long"] <= asked["short"] + 3
    assert asked["long"] <= 40


def test_an_append_writes_as_little_to_a_long_history_as_to_a_short_one(store):
    with Recall(store):
        asked = {}
        for session_id in ("short", "long"):
            with statements() as seen:
                store.add(session_id, [HumanMessage("One more word about herons.")], user_id="u")
            asked[session_id] = len(seen)
    print(asked)
    assert asked["long"] <= asked["short"]
