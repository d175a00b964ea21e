"""Talks with labelled questions, and how recall is measured on them.

LoCoMo (two people over months), REALTALK (short chats) and BEAM (a user and an assistant), all in
LoCoMo's format. Each data set has its own licence (LoCoMo: CC BY-NC 4.0), so a benchmark reads it
from the path it is given, and nothing is copied.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.tokens.encodings import find_encoding

KINDS = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop"}
"""Kinds of questions; adversarial ones (5) ask for what was never said and are left out."""

BEAM_KINDS = {
    1: "extraction", 2: "update", 3: "multi-session", 4: "temporal", 5: "order", 6: "contradiction",
    7: "preference", 8: "instruction", 9: "summary",
}  # fmt: skip
"""BEAM's abilities; abstention (0) asks for what was never said."""

SPANS = (512, 1_024, 2_048, 4_096)
"""Tokens within which evidence is looked for."""

DEEPEST = 400
"""Hits that fill 4,096 tokens whatever they are: none of them shows in less than 10 tokens."""

Found = Sequence[tuple[str, str]]
"""Id and shown line of what a search found, best first."""

_EVIDENCE = re.compile(r"D\d+:\d+")


@dataclass(frozen=True)
class Line:
    """One message of a dialogue."""

    id: str
    speaker: str
    said_at: datetime
    text: str


@dataclass(frozen=True)
class Question:
    """A question, its kind, and the ids of the messages that answer it."""

    text: str
    kind: str
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


def shown(said_at: datetime, speaker: str | None, text: str) -> str:
    """Return a text with date and speaker."""
    return f"[{said_at:%Y-%m-%d}] {speaker}: {text}"


def read_dialogues(path: Path, *, captions: bool = True) -> list[Dialogue]:
    """Read the dialogues of a file (.json or .json.gz).

    Args:
        path: The file.
        captions: Whether the caption of a shared photo belongs to its message.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = json.load(file)
    return [_dialogue(row, captions=captions) for row in rows]


def _dialogue(row: Mapping[str, Any], *, captions: bool) -> Dialogue:
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
            lines.append(Line(message["dia_id"], message["speaker"], said_at, text))
    known = {line.id for line in lines}
    kinds = BEAM_KINDS if any("beam_type" in asked for asked in row["qa"]) else KINDS
    questions = (
        Question(
            str(asked["question"]),
            kinds.get(asked["category"], ""),
            frozenset(known.intersection(_EVIDENCE.findall(" ".join(asked["evidence"])))),
        )
        for asked in row["qa"]
    )
    return Dialogue(
        str(row["sample_id"]),
        (talk["speaker_a"], talk["speaker_b"]),
        tuple(lines),
        tuple(each for each in questions if each.evidence and each.kind),
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


@lru_cache(maxsize=100_000)
def tokens(text: str) -> int:
    """Count the tokens of a text (o200k)."""
    return len(find_encoding("o200k_base").encode_ordinary(text))


def scores(found: Found, question: Question) -> list[float]:
    """Return R@5, R@10 and the share of evidence within each span of tokens.

    What is charged is the text that is shown: of a long message the part that was found.
    """
    ranks: dict[str, tuple[int, int]] = {}
    used = 0
    for rank, (name, text) in enumerate(found):
        used += tokens(text)
        if rank >= 10 and used > SPANS[-1]:
            break
        ranks.setdefault(name, (rank, used))
    seen = [ranks[name] for name in question.evidence if name in ranks]
    counts = [sum(rank < most for rank, _ in seen) for most in (5, 10)]
    counts += [sum(cost <= span for _, cost in seen) for span in SPANS]
    return [count / len(question.evidence) for count in counts]


HEADER = f"{'system':24} {'questions':13} {'n':>5}   R@5  R@10 " + " ".join(
    f"{f'B{span}':>5}" for span in SPANS
)

Row = tuple[str, list[float]]
"""Kind of a question, and its scores."""


def line_of(system: str, kind: str, rows: Sequence[Sequence[float]]) -> str:
    """Return the means of some questions, in percent."""
    means = " ".join(f"{100 * fmean(column):5.1f}" for column in zip(*rows, strict=True))
    return f"{system:24} {kind:13} {len(rows):5} {means}"


def difference(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> str:
    """Return the mean differences of the same questions in points, with their 95 % intervals.

    Normal approximation: 1.96 standard errors of the paired differences.
    """
    cells = []
    for mine, other in zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True):
        paired = [100 * (one - two) for one, two in zip(mine, other, strict=True)]
        error = 1.96 * stdev(paired) / math.sqrt(len(paired)) if len(paired) > 1 else 0.0
        below = "!" if fmean(paired) + error < 0 else ""
        cells.append(f"{fmean(paired):+.1f}±{error:.1f}{below}")
    return "  ".join(cells)
