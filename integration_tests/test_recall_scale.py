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
from langchain_tokenmem.recall.words import ReadLimits

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


def test_a_sentence_is_found_under_thousands(store):
    with Recall(store) as recall:
        for scope in ("session", "user"):
            hits = recall.search(
                "Which phrase opens the vault?", session_id="long", user_id="u", scope=scope, k=2
            )
            assert PLANTED in [hit.text for hit in hits]


def test_reading_less_of_the_common_words_hardly_changes_the_best_hits(store):
    with Recall(store) as recall:
        questions = [_about(str(message.content)) for message in store.messages("long")[10::200]]
        quick = [recall.search(question, session_id="long", k=5) for question in questions]
        recall.lexical.effort = ReadLimits(postings=10**6, candidates=10**6)
        whole = [recall.search(question, session_id="long", k=5) for question in questions]
    same = sum(
        len({hit.seq for hit in some} & {hit.seq for hit in every})
        for some, every in zip(quick, whole, strict=True)
    )
    there = sum(map(len, whole))
    print(f"{same} of {there} of the best five hits are the same")
    assert there > 60  # else nothing was compared
    assert same >= 0.9 * there


def _about(text: str) -> str:
    """Return a question of half the words of a message, the common ones, too."""
    return " ".join(text.rstrip(".").split()[::2]) + "?"
