"""Which hits a memory block shows: those that are worth their tokens."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.core.search_units import Hit
from langchain_tokenmem.memory.recalled_blocks import ConversationScope, with_recalled
from langchain_tokenmem.state import new_state

QUESTION = "What did we say about the price?"
STATEMENT = "I think we should talk about the price again, and then about the rest of it."


def hit(name: str, score: float, lexical: float) -> Hit:
    said = datetime(2026, 5, 8, tzinfo=UTC)
    return Hit(name, "s", f"words of {name}", score, "human", None, said, 1, lexical=lexical)


FOUND = [
    hit("best", 1.0, 0.5),
    hit("some", 0.5, 0.1),
    hit("long", 0.1, 0.25),
    hit("weak", 0.29, 0.24),
]


class Found:
    """A recall that finds the same for every question."""

    scope, k, store = "session", None, None

    def __init__(self, hits: list[Hit]) -> None:
        self.hits = hits

    def search(self, query: str, **options) -> list[Hit]:
        return self.hits


def shown_for(said: str, hits: list[Hit]) -> set[str]:
    memory = TokenMemory(8_000, recall=Found(hits))
    messages = [HumanMessage(said, id="q")]
    state = with_recalled(memory, messages, new_state(), ConversationScope("s"))
    return {*state["blocks"]["q"]["ids"]}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (QUESTION, {"best", "some", "long"}),
        ("价格是多少？", {"best", "some", "long"}),  # noqa: RUF001  # a question mark of Chinese
        (STATEMENT, {"best", "long"}),
        (f"{STATEMENT * 5} {QUESTION}", {"best", "long"}),
    ],
    ids=["question", "chinese", "statement", "long"],
)
def test_weak_hits_are_left_out_and_a_statement_recalls_what_matches_a_fifth_of_it(said, shown):
    assert shown_for(said, FOUND) == shown


def near(name: str, lexical: float, cosine: float) -> Hit:
    return replace(hit(name, 0.1, lexical), cosine=cosine)


BY_MEANING = [near("best", 0.1, 0.5), near("near", 0.1, 0.4), near("far", 0.1, 0.39)]


@pytest.mark.parametrize(
    ("said", "shown"),
    [(QUESTION, {"best", "near", "far", "named"}), (STATEMENT, {"best", "near", "named"})],
    ids=["question", "statement"],
)
def test_a_statement_also_recalls_what_is_near_in_meaning_and_a_question_everything(said, shown):
    assert shown_for(said, [*BY_MEANING, hit("named", 0.1, 0.2)]) == shown


def test_hits_of_a_search_that_does_not_say_what_matched_are_all_shown():
    hits = [hit("best", 1.0, 0.0), hit("weak", 0.1, 0.0)]
    assert shown_for(STATEMENT, hits) == {"best", "weak"}
