"""False refusals of the literal check, on recorded runs whose entries say nothing new.

    python benchmarks/literal_check.py FILE...

Each file is JSON Lines (gzipped or not) with `messages` in OpenAI's chat format. Two kinds of
entries are checked against the messages that they are about:

- **written**: recorded assistant messages of 300 characters and more, against all that was said
  before them. A model wrote them about the run; what it invented itself (a new file, a computed
  value) is refused with reason, so `--show` prints each refused bullet to be read.
- **reworded**: the 12 lines with the most literals of every 12,000 characters, in another order and
  another form: quotes, backticks, thousands separators, absolute paths, split names, plurals.

Printed: entries, bullets and literals that are refused, as a share of all; and of the reworded
entries, with one character of one literal changed, those in which the check finds it (**caught**).
"""
# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from _price_recordings import read_recordings
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from langchain_tokenmem.cli.measures import find_literals, plain_text
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.literal_check import (
    known_text,
    unknown_literals,
    without_lines,
)

LEAST_WRITTEN = 300
BATCH_CHARACTERS = 12_000
LINES = 12

_PIECE = re.compile(r".{1,200}(?=[\s,;{}]|$)")
_PATH = re.compile(r"(?<![\w/.:@-])(?:[\w.-]+/)+[\w.-]+\.\w{1,4}\b")
_NUMBER = re.compile(r"(?<![\w.,/:-])[1-9]\d{3,5}(?![\w.,/:-])")
_SNAKE = re.compile(r"(?<![\w./-])[a-z]+(?:_[a-z]+)+(?![\w./(-])")
_GROUPED = re.compile(r"\B(?=(?:\d{3})+$)")


@dataclass
class Refusals:
    """Counts of one kind of entry."""

    entries: int = 0
    refused_entries: int = 0
    bullets: int = 0
    refused_bullets: int = 0
    literals: int = 0
    refused_literals: int = 0
    changed: int = 0
    caught: int = 0

    def add(self, text: str, messages: Sequence[BaseMessage]) -> list[str]:
        """Check one entry about messages; return the literals that are refused."""
        request = SummaryRequest(messages, 400, len)
        known = known_text(request)
        unknown = unknown_literals(text, known)
        _, dropped = without_lines(text, lambda line: bool(unknown_literals(line, known)))
        self.entries += 1
        self.refused_entries += bool(unknown)
        self.bullets += sum(bool(line.strip()) for line in text.splitlines())
        self.refused_bullets += len(dropped)
        self.literals += len(find_literals(text))
        self.refused_literals += len(unknown)
        return unknown

    def catch(self, text: str, messages: Sequence[BaseMessage], rng: random.Random) -> None:
        """Change one literal of an entry that is not refused, and note whether it is found."""
        known = known_text(SummaryRequest(messages, 400, len))
        lines = text.splitlines()[1:]
        inside = [one for line in lines for one in find_literals(line)]
        if not inside or unknown_literals(text, known):
            return
        literal = rng.choice(inside)
        wrong = _changed(literal, rng)
        if known.has_words(wrong):
            return
        self.changed += 1
        self.caught += bool(unknown_literals(text.replace(literal, wrong), known))

    def report(self, name: str) -> str:
        """Return one line for a person."""
        pairs = (
            ("entries", self.refused_entries, self.entries),
            ("bullets", self.refused_bullets, self.bullets),
            ("literals", self.refused_literals, self.literals),
        )
        parts = (
            f"{refused:,} of {all_:,} {what} ({refused / max(1, all_):.2%})"
            for what, refused, all_ in pairs
        )
        caught = (
            f", {self.caught:,} of {self.changed:,} changed literals caught" if self.changed else ""
        )
        return f"{name:<10}" + ", ".join(parts) + caught


def _changed(literal: str, rng: random.Random) -> str:
    """Return a literal with another letter or digit in one place."""
    place = rng.choice([n for n, char in enumerate(literal) if char.isalnum()])
    others = "0123456789" if literal[place].isdigit() else "abcdefghijklmnopqrstuvwxyz"
    other = rng.choice([one for one in others if one != literal[place].lower()])
    return literal[:place] + other + literal[place + 1 :]


def reworded(line: str, rng: random.Random) -> str:
    """Return a line in other forms of the same literals."""
    changes: tuple[Callable[[str], str], ...] = (
        lambda text: _PATH.sub(lambda m: f"/workspace/repo/{m[0]}", text),
        lambda text: _PATH.sub(lambda m: f"`{m[0].split('/')[-1]}`", text),
        lambda text: _NUMBER.sub(lambda m: _GROUPED.sub(",", m[0]), text),
        lambda text: _SNAKE.sub(lambda m: f"`{m[0]}`", text),
        lambda text: _SNAKE.sub(lambda m: m[0].replace("_", " "), text),
        lambda text: _SNAKE.sub(lambda m: _camel(m[0]), text),
        lambda text: re.sub(r"\bIt\b", "The tool", text),
        lambda text: text.replace('"', "`").replace("'", "’"),
        lambda text: text.replace('"', "“", 1).replace('"', "”", 1),
        lambda text: re.sub(r"\s+", " ", text),
        lambda text: re.sub(r"\b([a-z]+[A-Z]\w+)\b", r"**\1s**", text),
    )
    for change in rng.sample(changes, 3):
        line = change(line)
    return line


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def reworded_entries(
    messages: Sequence[BaseMessage], seed: int
) -> Iterator[tuple[str, list[BaseMessage]]]:
    """Yield entries made of the lines of a run, each with the messages that it is about."""
    rng = random.Random(seed)
    batch: list[BaseMessage] = []
    for message in messages:
        batch.append(message)
        if sum(len(plain_text(one)) for one in batch) >= BATCH_CHARACTERS:
            yield _entry(batch, rng), batch
            batch = []


def _entry(batch: Iterable[BaseMessage], rng: random.Random) -> str:
    lines = [
        piece.strip(" ,;{}")
        for message in batch
        for line in plain_text(message).split("\n")
        for piece in _PIECE.findall(line)
    ]
    best = sorted(dict.fromkeys(lines), key=lambda one: -len(find_literals(one)))[:LINES]
    rng.shuffle(best)
    return "## State\n" + "\n".join(f"- {reworded(line, rng)}" for line in best)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the refusals in recordings."""
    parser = argparse.ArgumentParser(description="False refusals of the literal check.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--show", action="store_true", help="print each refused literal")
    options = parser.parse_args(argv)
    written, lines, rng = Refusals(), Refusals(), random.Random(7)
    for recording in (one for file in options.files for one in read_recordings(file)):
        messages = recording.messages()
        for place, message in enumerate(messages):
            text = str(message.text)
            if (
                not isinstance(message, AIMessage)
                or len(text) < LEAST_WRITTEN
                or message.tool_calls
            ):
                continue
            unknown = written.add(text, messages[:place])
            if unknown and options.show:
                print(f"written  {recording.name} {place}: {unknown}")
        body = [one for one in messages if not isinstance(one, SystemMessage)]
        for text, batch in reworded_entries(body, seed=7):
            unknown = lines.add(text, batch)
            lines.catch(text, batch, rng)
            if unknown and options.show:
                print(f"reworded {recording.name}: {unknown}")
    print(written.report("written"))
    print(lines.report("reworded"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
