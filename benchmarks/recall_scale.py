"""Cost of recall as a history grows: a question by words, and a turn of the chat history.

One user talks in sessions of 1,000 messages (Zipf's law, 30,000 words). At two sizes it prints the
median of a question over everything of the user, and in one long session the median cost of a turn
of the chat history: the question is stored, the view read, recall searched for the view, the answer
stored. Beside them, in the same run: plain FTS5 over the same messages, insert and question.

Run: python benchmarks/recall_scale.py [--small 1000] [--large 3000]; promised for --large 100000
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from _talk import Talk
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
)

SITTING = 1_000
TURNS = 60
QUESTIONS = 100


@dataclass(frozen=True)
class Took:
    """A median, in milliseconds: by the clock, and of the processor (a busy machine's measure)."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:8.2f} ms ({self.processor:.2f} ms of the processor)"


@dataclass(frozen=True)
class Cost:
    """Medians at one size."""

    question: Took
    peer_question: Took
    turn: Took
    peer_insert: Took


def median_of(runs: Sequence[Callable[[], object]]) -> Took:
    """Return the median time of some runs."""
    clock, processor = [], []
    for run in runs:
        started = time.perf_counter(), time.process_time()
        run()
        clock.append(time.perf_counter() - started[0])
        processor.append(time.process_time() - started[1])
    return Took(1e3 * statistics.median(clock), 1e3 * statistics.median(processor))


class Fts5:
    """One table for all users, the Porter stemmer."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(
            "CREATE VIRTUAL TABLE said USING fts5(body, tokenize='porter unicode61')"
        )

    def add(self, texts: Sequence[str]) -> None:
        """Insert texts in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO said(body) VALUES (?)", [(t,) for t in texts])
        self._connection.execute("COMMIT")

    def search(self, query: str) -> list[tuple[int]]:
        """Return the 20 best."""
        asked = " OR ".join(re.findall(r"\w+", query))
        return self._connection.execute(
            "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT 20", (asked,)
        ).fetchall()


class Bench:
    """Two stores that grow together: many sessions of a user, and one long session."""

    def __init__(self, folder: Path) -> None:
        self._talk = Talk()
        self._store = TranscriptStore(f"sqlite:///{folder}/sessions.db")
        self._recall = Recall(self._store)
        self._long = TranscriptStore(f"sqlite:///{folder}/long.db")
        self._long_recall = Recall(self._long)
        self._memory = TokenMemory(TokenBudget(context_window=8_000), recall=self._long_recall)
        self._peer = Fts5(folder / "peer.db")
        self.size = 0

    def grow(self, size: int) -> None:
        """Add messages until there are `size` of them."""
        while self.size < size:
            new = [
                self._talk.message(number)
                for number in range(self.size, min(size, self.size + SITTING))
            ]
            self._store.add(f"s{self.size // SITTING}", new, user_id="u")
            self._long.add("long", new, user_id="u")
            self._peer.add([str(message.content) for message in new])
            self.size += len(new)
            self._history().compact()

    def _history(self) -> TokenMemoryChatHistory:
        return TokenMemoryChatHistory("long", memory=self._memory, store=self._long, user_id="u")

    def turn(self, number: int) -> None:
        """Take one turn of the chat history."""
        question = HumanMessage(self._talk.question(), id=f"q{self.size}-{number}")
        history = self._history()
        history.add_messages([question])
        history.view()
        self._history().add_messages([self._answer(number)])

    def _answer(self, number: int) -> BaseMessage:
        return AIMessage(self._talk.message(1).content, id=f"a{self.size}-{number}")

    def cost(self) -> Cost:
        """Measure at the size that it has."""
        questions = [self._talk.question() for _ in range(QUESTIONS)]
        ask = [
            partial(
                self._recall.search,
                q,
                session_id="s0",
                user_id="u",
                scope="user",
                max_tokens=1_000,
            )
            for q in questions
        ]
        median_of(ask[:5])  # warms up
        turns = [partial(self.turn, number) for number in range(TURNS)]
        inserts = [
            lambda: self._peer.add([str(self._talk.message(0).content)]) for _ in range(TURNS)
        ]
        return Cost(
            question=median_of(ask),
            peer_question=median_of([partial(self._peer.search, q) for q in questions]),
            turn=median_of(turns),
            peer_insert=median_of(inserts),
        )

    def close(self) -> None:
        """Close both stores."""
        for each in (self._recall, self._long_recall, self._store, self._long):
            each.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=3_000)
    options = parser.parse_args()
    costs: dict[int, Cost] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for size in (options.small, options.large):
            started = time.perf_counter()
            bench.grow(size)
            print(f"{size:,} messages, written in {time.perf_counter() - started:.0f} s")
            cost = costs[size] = bench.cost()
            print(f"  question over all of a user   {cost.question}")
            print(f"  the same by plain FTS5        {cost.peer_question}")
            print(f"  turn of the chat history with recall  {cost.turn}")
            print(f"  a message into plain FTS5     {cost.peer_insert}", flush=True)
        bench.close()
    small, large = costs[options.small], costs[options.large]
    print(f"question over {options.large:,} messages: {large.question}")
    print("  (promised over 100,000: at most 20 ms)")
    print(f"turn at {options.large:,} beside one at {options.small:,} messages: ratio "
          f"{large.turn.clock / small.turn.clock:.2f}, of the processor "
          f"{large.turn.processor / small.turn.processor:.2f}")  # fmt: skip
    print("  (promised from 1,000 to 100,000: at most 2)")


if __name__ == "__main__":
    main()
