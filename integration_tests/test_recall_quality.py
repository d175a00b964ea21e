"""The right old message comes back, and nothing for an unrelated question."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import Recall, TranscriptStore

SMALL_TALK = 300

_TALK = (
    "The weather was mild and we walked along the canal for an hour.",
    "Lunch was late again because the meeting ran over.",
    "I watered the plants and then I read for a while.",
    "The train was full, so I stood most of the way.",
    "She laughed about the old photographs in the drawer.",
    "We should paint the fence before the summer comes.",
    "My neighbour plays the trumpet on Sunday mornings.",
    "The library has moved its opening hours once more.",
)

FACTS = {
    "Which allergy does Tomasz have?": "Tomasz is allergic to hazelnuts, they make him wheeze.",
    "What is the wifi password of the cabin?": "The cabin's wifi password is owl-lantern-77.",
    "How much did the kayak cost?": "I paid 640 euros for the kayak.",
    "When is the dentist appointment?": "The dentist is on 14 March at nine.",
    "What broke during the payroll migration?": "The payroll job hit ORA-01555.",
    "Who is the godmother of Lena?": "Lena's godmother is aunt Philippa.",
}


def conversation(seed: int) -> list[BaseMessage]:
    """Return small talk in which the facts stand, in random places."""
    chance = random.Random(seed)
    texts = [*chance.choices(_TALK, k=2 * SMALL_TALK), *FACTS.values()]
    chance.shuffle(texts)
    return [
        (HumanMessage if number % 2 == 0 else AIMessage)(text, id=f"m{number}")
        for number, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[TranscriptStore]:
    folder = tmp_path_factory.mktemp("quality")
    with TranscriptStore(f"sqlite:///{folder}/memory.db", shared=True) as opened, Recall(opened):
        opened.add("s", conversation(7), user_id="u")
        yield opened


@pytest.fixture(scope="module")
def recall(store: TranscriptStore) -> Iterator[Recall]:
    with Recall(store) as opened:
        yield opened


def test_facts_come_back_first(recall):
    found = 0
    for question, answer in FACTS.items():
        hits = recall.search(question, session_id="s", k=3)
        found += answer in [hit.text for hit in hits]
    assert found >= len(FACTS) - 1


def test_two_hundred_unrelated_questions_recall_next_to_nothing(recall):
    benchmarks = Path(__file__).parents[1] / "benchmarks"
    asked = (benchmarks / "_unrelated.txt").read_text(encoding="utf-8").splitlines()
    found = {question: recall.search(question, session_id="s", k=1) for question in asked}
    answered = [question for question, hits in found.items() if hits]
    print(f"of {len(asked)} unrelated questions {len(answered)} bring something back: {answered}")
    assert len(asked) == 200
    assert len(answered) <= len(asked) * 0.02
