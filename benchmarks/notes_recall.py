"""Share of questions whose evidence is among the notes that are injected, and the cost in time.

A user's notes are the facts of one speaker of a dialogue, as the data lists them (LoCoMo's
`observation`, each with the message that it comes from), dated by their session, all of level
`global`. Questions are asked as they stand. Of all questions whose evidence is this speaker's, 300
are drawn (seed 0). Found: a note of the evidence stands in the block of at most 400 tokens (o200k).
A fact can be labelled with a message that says something else; so a second line counts only the
questions of which a note of the evidence has a word of the answer, or that ask for a date.

Data without facts (REALTALK) has none to draw: there each line of a speaker of six words or more is
a note, a check that nothing is tuned to one file.

200 questions that have nothing to do with any dialogue are asked in every notebook: how many bring
any note. With `--time` it prints what a question over 1,000 notes costs.

The data is CC BY-NC 4.0 and not part of this project.

Run: python benchmarks/notes_recall.py DATA [--questions 300] [--misses] [--time]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from _talk import Talk
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import Notebook
from langchain_tokenmem.notes import Note
from langchain_tokenmem.notes.kept_notes import kept_notes
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.tokens.encodings import find_encoding

UNRELATED = Path(__file__).with_name("_unrelated.txt")
MOST_TOKENS = 400
LEAST_WORDS = 6
TEMPORAL, ADVERSARIAL = 2, 5
PROMISED = "promised: at least 85 % of 300 questions within 400 tokens, at most 3 % of unrelated"

_EVIDENCE = re.compile(r"D\d+:\d+")


@dataclass(frozen=True)
class Fact:
    """A fact of a speaker: what it says, when, and the messages that it comes from."""

    text: str
    said_at: datetime
    sources: frozenset[str]


@dataclass(frozen=True)
class Question:
    """A question, and the messages that answer it."""

    text: str
    evidence: frozenset[str]
    has_answer: bool


class Speaker:
    """A speaker of a dialogue: their notes, and the questions about them."""

    def __init__(self, name: str, facts: list[Fact], row: Mapping[str, Any]) -> None:
        self.name = name
        self.clock = datetime(2020, 1, 1, tzinfo=UTC)
        self.notebook = Notebook(InMemoryStore(), limit=10_000, now=lambda: self.clock)
        self.sources: dict[str, frozenset[str]] = {}
        for number, fact in enumerate(facts):
            self.clock = fact.said_at + timedelta(seconds=number)
            note = self.notebook.add(fact.text, level="global", user_id=name)
            self.sources[note.id] = self.sources.get(note.id, frozenset()) | fact.sources
        known = frozenset().union(*self.sources.values())
        terms = TextAnalyser()
        self.questions: list[Question] = []
        for asked in row["qa"]:
            evidence = frozenset(_EVIDENCE.findall(" ".join(map(str, asked["evidence"]))))
            if not evidence or not evidence <= known or asked["category"] in {0, ADVERSARIAL}:
                continue
            shown = {t for f in facts if f.sources & evidence for t in terms.terms(f.text)}
            answered = not shown.isdisjoint(terms.query_terms(str(asked["answer"])))
            is_temporal = asked["category"] == TEMPORAL
            question = Question(str(asked["question"]), evidence, is_temporal or answered)
            self.questions.append(question)

    def injected(self, question: str, count: Any) -> list[Note]:
        """Return the notes that a request with this question shows."""
        found = self.notebook.search(question, user_id=self.name, limit=50)
        shown = kept_notes(found, MOST_TOKENS, count).levels
        return [note for note in found if note.id in shown]

    def is_found(self, question: Question, count: Any) -> bool:
        """Return whether a note of the evidence is shown."""
        notes = self.injected(question.text, count)
        return any(self.sources[note.id] & question.evidence for note in notes)


def speakers(path: Path) -> Iterator[Speaker]:
    """Read the dialogues of a file (.json or .json.gz), and give each of their speakers."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = json.load(file)
    for row in rows:
        talk = row["conversation"]
        for name in (talk["speaker_a"], talk["speaker_b"]):
            facts = list(_facts(row, name))
            if facts:
                yield Speaker(name, facts, row)


def _facts(row: Mapping[str, Any], name: str) -> Iterator[Fact]:
    talk = row["conversation"]
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        date = talk[f"session_{number}_date_time"]
        said_at = datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        if "observation" in row:
            for text, *sources in row["observation"][f"session_{number}_observation"].get(name, ()):
                yield Fact(text, said_at, frozenset(_EVIDENCE.findall(json.dumps(sources))))
            continue
        for line in talk[f"session_{number}"]:
            if line["speaker"] == name and len(line["text"].split()) >= LEAST_WORDS:
                yield Fact(f"{name}: {line['text']}", said_at, frozenset([line["dia_id"]]))


def time_of_questions(notes: int = 1_000, questions: int = 200) -> tuple[float, float, float]:
    """Return the time of the first question, the median and the 95th of 100, in milliseconds."""
    talk, notebook = Talk(0), Notebook(InMemoryStore(), limit=notes)
    for number in range(notes):
        notebook.add(str(talk.message(number).content), level="global", user_id="ann")
    took = []
    for _ in range(questions):
        question = talk.question()
        started = time.perf_counter()
        notebook.search(question, user_id="ann", level="global")
        took.append(1e3 * (time.perf_counter() - started))
    return took[0], statistics.median(took[1:]), statistics.quantiles(took[1:], n=20)[-1]


def main() -> None:
    """Print the shares, and the time of a question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, help="LoCoMo or REALTALK, .json or .json.gz")
    parser.add_argument("--questions", type=int, default=300, help="most of them; 0 for all")
    parser.add_argument("--misses", action="store_true", help="print the questions that miss it")
    parser.add_argument("--time", action="store_true", help="print what a question costs")
    options = parser.parse_args()
    if options.time:
        first, median, slow = time_of_questions()
        print(f"1,000 notes: {median:.1f} ms a question, 95th {slow:.1f}, first {first:.1f}")
    if options.data is None:
        print("It needs DATA, the LoCoMo dialogues (CC BY-NC 4.0): none are given, none are read.")
        return
    encoding = find_encoding("o200k_base")

    def count(text: str) -> int:
        return len(encoding.encode_ordinary(text))

    people = list(speakers(options.data))
    asked = [(person, question) for person in people for question in person.questions]
    drawn = random.Random(0).sample(asked, min(options.questions or len(asked), len(asked)))
    rows = [(question, person.is_found(question, count)) for person, question in drawn]
    for name, group in (
        ("all", rows),
        ("with the answer in a note", [row for row in rows if row[0].has_answer]),
    ):
        found = sum(is_found for _, is_found in group)
        print(f"{name}: {len(group)} questions, evidence injected {100 * found / len(group):.1f} %")
    unrelated = UNRELATED.read_text(encoding="utf-8").splitlines()
    brought = sum(bool(person.injected(text, count)) for person in people for text in unrelated)
    pairs = len(people) * len(unrelated)
    print(f"{len(people)} notebooks, {pairs:,} unrelated questions: {100 * brought / pairs:.1f} %")
    print(PROMISED)
    if options.misses:
        print("\n".join(question.text for question, is_found in rows if not is_found))


if __name__ == "__main__":
    main()
