"""LoCoMo dialogues with labelled questions, and how recall is measured on them.

The data is CC BY-NC 4.0: it is read from the path that a benchmark is given, never copied.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.tokens.encodings import find_encoding

KINDS = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop"}
"""Categories of questions; adversarial ones (5) ask for what was never said and are left out."""

SPANS = (512, 1_024, 2_048, 4_096)
"""Tokens within which evidence is looked for."""

DEEPEST = 400
"""Hits that fill 4,096 tokens whatever they are: none of them shows in less than 10 tokens."""

_EVIDENCE = re.compile(r"D\d+:\d+")


@dataclass(frozen=True)
class Line:
    """One message of a dialogue; `cost` is its tokens as it is shown, with date and speaker."""

    id: str
    speaker: str
    said_at: datetime
    text: str
    cost: int


@dataclass(frozen=True)
class Question:
    """A question, its category, and the ids of the messages that answer it."""

    text: str
    kind: int
    evidence: frozenset[str]


@dataclass(frozen=True)
class Dialogue:
    """A dialogue of two speakers over months."""

    name: str
    speakers: tuple[str, str]
    lines: tuple[Line, ...]
    questions: tuple[Question, ...]

    def messages(self) -> list[BaseMessage]:
        """Return the lines as a conversation; the first speaker is the human."""
        return [
            (HumanMessage if line.speaker == self.speakers[0] else AIMessage)(
                line.text, id=line.id, name=line.speaker
            )
            for line in self.lines
        ]


def shown(line: Line) -> str:
    """Return a line with date and speaker."""
    return f"[{line.said_at:%Y-%m-%d}] {line.speaker}: {line.text}"


def read_dialogues(path: Path, *, captions: bool = True) -> list[Dialogue]:
    """Read the dialogues of a LoCoMo file (.json or .json.gz).

    Args:
        path: The file.
        captions: Whether the caption of a shared photo belongs to its message.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = json.load(file)
    encoding = find_encoding("o200k_base")

    def count(text: str) -> int:
        return len(encoding.encode_ordinary(text))

    return [_dialogue(row, count, captions=captions) for row in rows]


def _dialogue(row: Mapping[str, Any], count: Callable[[str], int], *, captions: bool) -> Dialogue:
    talk = row["conversation"]
    lines: list[Line] = []
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        said_at = datetime.strptime(
            talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y"
        ).replace(tzinfo=UTC)
        for message in talk[f"session_{number}"]:
            photo = message.get("blip_caption") if captions else None
            text = message["text"] + (f" [photo: {photo}]" if photo else "")
            line = Line(message["dia_id"], message["speaker"], said_at, text, 0)
            lines.append(Line(line.id, line.speaker, said_at, text, count(shown(line))))
    known = {line.id for line in lines}
    questions = (
        Question(
            str(asked["question"]),
            asked["category"],
            frozenset(known.intersection(_EVIDENCE.findall(" ".join(asked["evidence"])))),
        )
        for asked in row["qa"]
    )
    return Dialogue(
        str(row["sample_id"]),
        (talk["speaker_a"], talk["speaker_b"]),
        tuple(lines),
        tuple(each for each in questions if each.evidence and each.kind in KINDS),
    )


def play_in(store: TranscriptStore, dialogue: Dialogue, session_id: str, user_id: str) -> None:
    """Write a dialogue into a session, each sitting at its date."""
    messages = dialogue.messages()
    start = 0
    for end in range(1, len(messages) + 1):
        sitting = dialogue.lines[start].said_at
        if end == len(messages) or dialogue.lines[end].said_at != sitting:
            store.add(session_id, messages[start:end], user_id=user_id, now=sitting)
            start = end


def scores(found: Sequence[str], question: Question, costs: Mapping[str, int]) -> list[float]:
    """Return R@5, R@10 and the share of evidence within each span of tokens."""
    deepest: dict[str, int] = {}
    used = 0
    for rank, name in enumerate(found):
        used += costs[name]
        if rank >= 10 and used > SPANS[-1]:
            break
        deepest.setdefault(name, used)
    ranks = {name: rank for rank, name in enumerate(deepest)}
    all_of_it = len(question.evidence)
    seen = [name for name in question.evidence if name in deepest]
    by_rank = [sum(ranks[name] < most for name in seen) / all_of_it for most in (5, 10)]
    return by_rank + [sum(deepest[name] <= span for name in seen) / all_of_it for span in SPANS]


HEADER = f"{'system':38} {'questions':13} {'n':>5}   R@5  R@10 " + " ".join(
    f"{f'B{span}':>5}" for span in SPANS
)


def table(system: str, rows: Iterable[tuple[int, list[float]]], *, kinds: bool = True) -> str:
    """Return the means in percent: one line for all questions, and one per category."""
    measured = list(rows)
    groups: list[tuple[str, list[list[float]]]] = [("all", [row for _, row in measured])]
    if kinds:
        groups += [
            (name, [row for kind, row in measured if kind == number])
            for number, name in KINDS.items()
        ]
    return "\n".join(
        f"{system:38} {name:13} {len(group):5} "
        + " ".join(f"{100 * sum(column) / len(column):5.1f}" for column in zip(*group, strict=True))
        for name, group in groups
        if group
    )
