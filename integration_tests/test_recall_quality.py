"""The right old message comes back, and nothing for an unrelated question."""

import random
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import Recall, TranscriptStore

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
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


def test_facts_come_back_first_and_of_200_unrelated_questions_next_to_none_recalls_anything():
    asked = (BENCHMARKS / "_unrelated.txt").read_text(encoding="utf-8").splitlines()
    with TranscriptStore("sqlite://") as store, Recall(store) as recall:
        store.add("s", conversation(7))
        found = [
            answer in [hit.text for hit in recall.search(question, session_id="s", k=3)]
            for question, answer in FACTS.items()
        ]
        assert found.count(True) >= len(FACTS) - 1
        answered = [one for one in asked if recall.search(one, session_id="s", k=1)]
    assert len(asked) == 200
    assert len(answered) <= len(asked) * 0.02, answered
