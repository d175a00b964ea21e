"""The right old message comes back, and nothing for an unrelated question."""

from __future__ import annotations

import random
import re
import sqlite3
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

# Question, what answers it, what stands around the answer.
FACTS = (
    ("Which allergy does Tomasz have?", "Hazelnuts, they make him wheeze.", "Tomasz's allergy"),
    ("What is the wifi password of the cabin?", "It is owl-lantern-77.", "the cabin wifi"),
    ("Where did we hide the spare key?", "Under the third flowerpot.", "the spare key"),
    ("Who repaired the violin?", "Old Brandt on Mill Lane repaired it.", "the violin"),
    ("How much did the kayak cost?", "I paid 640 euros for the kayak.", "the kayak"),
    ("When is the dentist appointment?", "The dentist is on 14 March at nine.", "the dentist"),
    ("Which vaccine did the dog get?", "The dog got the leptospirosis shot.", "the dog"),
    ("What did Ingrid name her boat?", "She calls the boat Silver Tern.", "Ingrid's boat"),
    ("Which file held the bug in the parser?", "It was in lexer_tables.py.", "the parser bug"),
    ("What broke during the payroll migration?", "The payroll job hit ORA-01555.", "payroll"),
    ("Which trail did we choose for October?", "The ridge trail over Kestrel Gap.", "October"),
    ("Who is the godmother of Lena?", "Her godmother is aunt Philippa.", "Lena's christening"),
)


def conversation(seed: int) -> list[BaseMessage]:
    """Return small talk in which the facts and the planted sentences stand, in random places."""
    chance = random.Random(seed)
    said: list[tuple[str, ...]] = [
        (chance.choice(_TALK), chance.choice(_TALK)) for _ in range(SMALL_TALK)
    ]
    said += [(f"Before I forget, a word about {about}.", answer) for _, answer, about in FACTS]
    chance.shuffle(said)
    texts = [text for pair in said for text in pair]
    return [
        (HumanMessage if number % 2 == 0 else AIMessage)(text, id=f"m{number}")
        for number, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[TranscriptStore]:
    folder = tmp_path_factory.mktemp("quality")
    with TranscriptStore(f"sqlite:///{folder}/memory.db") as opened, Recall(opened):
        opened.add("s", conversation(7), user_id="u")
        yield opened


@pytest.fixture(scope="module")
def recall(store: TranscriptStore) -> Iterator[Recall]:
    with Recall(store) as opened:
        yield opened


def test_facts_come_back_more_often_than_by_plain_fts5(store, recall):
    ours = sum(
        answer in [hit.text for hit in recall.search(question, session_id="s", k=3)]
        for question, answer, _ in FACTS
    )
    texts = [str(message.content) for message in store.messages("s")]
    plain = sum(answer in plain_fts5(texts, question, 3) for question, answer, _ in FACTS)
    print(f"of {len(FACTS)} answers among the first 3 hits: {ours}, by plain FTS5 {plain}")
    assert ours >= 10
    assert ours >= plain


def plain_fts5(texts: list[str], question: str, most: int) -> list[str]:
    """Return what SQLite's own search gives."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE said USING fts5(body, tokenize='porter unicode61')")
    connection.executemany("INSERT INTO said VALUES (?)", [(text,) for text in texts])
    asked = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
    found = connection.execute(
        "SELECT body FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?", (asked, most)
    ).fetchall()
    connection.close()
    return [row[0] for row in found]


def test_two_hundred_unrelated_questions_recall_next_to_nothing(recall):
    benchmarks = Path(__file__).parents[1] / "benchmarks"
    asked = (benchmarks / "_unrelated.txt").read_text(encoding="utf-8").splitlines()
    found = {question: recall.search(question, session_id="s", k=1) for question in asked}
    answered = [question for question, hits in found.items() if hits]
    print(f"of {len(asked)} unrelated questions {len(answered)} bring something back: {answered}")
    assert len(asked) == 200
    assert len(answered) <= len(asked) * 0.02
