"""Precision of what rules of words read: 200 items drawn by chance, judged by hand.

    python benchmarks/notes_precision.py FOLDER            # the share that is right
    python benchmarks/notes_precision.py FOLDER --show 40  # items with their context

The sheet (`notes_precision.csv`) holds no text of the recordings: each item has its data set, the
index of its conversation, the number of its message, its section, a digest of its text, the
judgement, and the reason. `right` means that a careful reader agrees that the item is what its
section says, and understands it alone. An item that is drawn and stands in no line of the sheet is
not judged yet: the rules have changed since.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem.adapters.importing import message_of
from langchain_tokenmem.cli.replay import numbered
from langchain_tokenmem.core.facts.sentences import message_text
from langchain_tokenmem.core.messages import groups, reference
from langchain_tokenmem.core.working_notes.mode_profiles import LIMITS, new_modes_state
from langchain_tokenmem.core.working_notes.reading import read_groups
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from langchain_tokenmem.state import NoteItem

SHEET = Path(__file__).with_name("notes_precision.csv")
DIALOGUES = ("locomo_dev", "realtalk_dev", "beam_dev")
RECORDINGS = ("transcripts_dev", "transcripts_other_dev", "transcripts_long_first_dev")
SECTIONS = ("decisions", "constraints", "assumptions", "facts")
DRAWN = 200
UNLIMITED = dict.fromkeys(LIMITS, 10_000)


@dataclass(frozen=True)
class Drawn:
    """An item that was read, and where it was."""

    data: str
    conversation: int
    number: int
    section: str
    item: NoteItem
    message: BaseMessage

    @property
    def text(self) -> str:
        """Text of the item, with reason and what was rejected."""
        rejected = "; ".join(self.item.get("rejected", []))
        parts = (self.item["text"], self.item.get("rationale", ""), rejected)
        return " || ".join(filter(None, parts))

    @property
    def digest(self) -> str:
        """Beginning of the digest of its text."""
        return hashlib.sha256(f"{self.section}\n{self.text}".encode()).hexdigest()[:12]


def conversations(folder: Path) -> Iterator[tuple[str, int, list[BaseMessage]]]:
    """Yield the conversations with the name of their file and their place in it."""
    for name in DIALOGUES:
        with gzip.open(folder / f"{name}.json.gz", "rt", encoding="utf-8") as file:
            for place, row in enumerate(json.load(file)):
                yield name, place, dialogue(row["conversation"])
    for name in RECORDINGS:
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for place, line in enumerate(lines):
                rows = json.loads(line)["messages"]
                recorded = numbered(message_of(row, name) for row in rows)
                yield name, place, [one for one in recorded if one.type != "system"]


def dialogue(talk: dict[str, Any]) -> list[BaseMessage]:
    """Return a dialogue; its first speaker is the user."""
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    lines = [line for number in numbers for line in talk[f"session_{number}"]]
    return [
        (HumanMessage if line["speaker"] == talk["speaker_a"] else AIMessage)(
            line["text"], id=f"m{number}"
        )
        for number, line in enumerate(lines)
    ]


def items_of(folder: Path) -> list[Drawn]:
    """Return all items that the rules read, each text once."""
    found: dict[str, Drawn] = {}
    for name, place, messages in conversations(folder):
        numbers = {reference(one.id): number for number, one in enumerate(messages, 1)}
        state = read_groups(
            new_modes_state(""),
            [group.messages for group in groups(messages)],
            TurnMemorySettings(),
            UNLIMITED,
        )
        for section in SECTIONS:
            for item in state["sections"].get(section, []):
                number = numbers[item["source"]]
                drawn = Drawn(name, place, number, section, item, messages[number - 1])
                found.setdefault(drawn.digest, drawn)
    return list(found.values())


def drawn_from(items: Sequence[Drawn], seed: str) -> list[Drawn]:
    """Draw 200 items by chance: of each section an equal share, or all where there are fewer."""
    by_chance = sorted(
        items, key=lambda one: hashlib.sha256(f"{seed}{one.digest}".encode()).hexdigest()
    )
    queues = {name: [one for one in by_chance if one.section == name] for name in SECTIONS}
    chosen: list[Drawn] = []
    while len(chosen) < DRAWN and any(queues.values()):
        for queue in queues.values():
            if queue and len(chosen) < DRAWN:
                chosen.append(queue.pop(0))
    return chosen


def sheet() -> dict[str, dict[str, str]]:
    """Return the judged items by their digest."""
    if not SHEET.exists():
        return {}
    with SHEET.open(encoding="utf-8", newline="") as file:
        return {row["digest"]: row for row in csv.DictReader(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the recordings and dialogues")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--show", type=int, default=0, help="print so many items of each section")
    parser.add_argument("--unjudged", action="store_true", help="print those that are not judged")
    args = parser.parse_args()
    items = items_of(args.folder)
    chosen, judged = drawn_from(items, args.seed), sheet()
    print(f"{len(items)} items read: {dict(Counter(one.section for one in items))}")
    for section in SECTIONS:
        own = [one for one in chosen if one.section == section]
        shown = [one for one in own if not (args.unjudged and one.digest in judged)]
        for one in shown[: len(shown) if args.unjudged else args.show]:
            text = " ".join(message_text(one.message).split())
            place = max(0, text.find(one.item["text"][:20]) - 120)
            at = f"{one.data},{one.conversation},{one.number},{section},{one.digest}"
            print(f"{at} {one.text!r}\n      {text[place : place + 300]}")
    rows = [(one.section, judged.get(one.digest, {}).get("judgement", "?")) for one in chosen]
    for section in (*SECTIONS, "all"):
        verdicts = Counter(verdict for name, verdict in rows if section in (name, "all"))
        known = verdicts["right"] + verdicts["wrong"]
        share = f"{verdicts['right'] / known:.1%}" if known else "-"
        print(
            f"{section:12} drawn {verdicts.total():4} right {verdicts['right']:4} "
            f"wrong {verdicts['wrong']:3} not judged {verdicts['?']:3}  {share}"
        )


if __name__ == "__main__":
    main()
