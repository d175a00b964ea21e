"""Time of a question over the 1,000 notes of a level, by the store that keeps them.

The notes are lines of made-up talk. The stores are asked the same questions in turn, so that what
else the machine does meets them all alike. Printed are the median CPU time in milliseconds, its
ratio to that of LangGraph's `InMemoryStore` in the same run, the first question, which analyses the
notes, and `again`: the first question after a note was added.

Run: python benchmarks/notes_question.py [--notes 1000] [--questions 100]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from _talk import Talk
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langchain_tokenmem import Notebook, TranscriptStore
from langchain_tokenmem.notes import JsonStore, SqlStore

PROMISED = "promised: a question over the 1,000 notes of a level at most 25 ms"
ANN = {"user_id": "ann"}


def notebooks(folder: Path, notes: int, langgraphs: BaseStore) -> dict[str, Notebook]:
    """Return a notebook of each store, filled with the same notes."""
    stores: dict[str, BaseStore] = {
        "InMemoryStore": InMemoryStore(),
        "SqlStore": SqlStore(TranscriptStore(f"sqlite:///{folder / 'notes.db'}")),
        "JsonStore": JsonStore(folder / "json"),
        "SqliteStore": langgraphs,
    }
    first = Notebook(stores["InMemoryStore"], limit=notes)
    talk = Talk(0)
    for number in range(notes):
        first.add(str(talk.message(number).content), level="global", user_id="ann")
    items = stores["InMemoryStore"].search(("tokenmem",), limit=notes)
    for store in [*stores.values()][1:]:
        for item in items:
            store.put(item.namespace, item.key, item.value)
        if isinstance(store, JsonStore):
            store.flush()
    return {name: Notebook(store, limit=notes + 1_000) for name, store in stores.items()}


def main() -> None:
    """Print the medians of all stores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=1_000)
    parser.add_argument("--questions", type=int, default=100)
    options = parser.parse_args()
    took: dict[str, list[float]] = defaultdict(list)
    again: dict[str, list[float]] = defaultdict(list)

    def ask(notebook: Notebook, question: str) -> float:
        started = time.process_time()
        notebook.search(question, level="global", user_id="ann")
        return 1e3 * (time.process_time() - started)

    with (
        tempfile.TemporaryDirectory() as folder,
        SqliteStore.from_conn_string(f"{folder}/langgraph.db") as langgraphs,
    ):
        langgraphs.setup()
        books, talk = notebooks(Path(folder), options.notes, langgraphs), Talk(1)
        for number in range(options.questions):
            question = talk.question()
            for name, notebook in books.items():
                took[name].append(ask(notebook, question))
            if number % 10 == 0:
                for name, notebook in books.items():
                    notebook.add(f"Round {number} of the questions.", level="global", user_id="ann")
                    again[name].append(ask(notebook, question))
    base = statistics.median(took["InMemoryStore"][1:])
    for name, times in took.items():
        median, slow = statistics.median(times[1:]), statistics.quantiles(times[1:], n=20)[-1]
        print(
            f"{name:14} median {median:5.1f} ms ({median / base:4.2f} x InMemoryStore), "
            f"95th {slow:5.1f}, again {statistics.median(again[name]):5.1f}, first {times[0]:6.1f}"
        )
    print(PROMISED)


if __name__ == "__main__":
    main()
