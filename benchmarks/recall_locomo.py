"""Evidence that recall finds on LoCoMo, beside the usual ways of searching.

Ten dialogues of months, questions with labelled evidence. A unit is one message. R@n is the mean
share of a question's evidence among the first n hits; Bn the share within n tokens (o200k) when
hits are shown in rank order, each as one line with date and speaker. Beside `Recall`: SQLite FTS5
(Porter stems, date and speaker in the text), vectors alone, and reciprocal-rank fusion of the two.

With `--unrelated` it also asks 200 questions that have nothing to do with any dialogue, and prints
how many bring back anything, and what the floor that prevents it costs.

The data is CC BY-NC 4.0 and not part of this project; the model is no dependency of it.

Run: python benchmarks/recall_locomo.py DATA [--embeddings none|hashing|minilm] [--cache FILE]
     [--postgres URL] [--unrelated]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from _locomo import DEEPEST, HEADER, Dialogue, play_in, read_dialogues, scores, table
from _models import MiniLM
from _peers import PlainDense, PlainFts5, fused
from langchain_core.embeddings import Embeddings

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings
from langchain_tokenmem.recall.fusion import Floor

UNRELATED = Path(__file__).with_name("_unrelated.txt")
NO_FLOOR = Floor(terms=0, share=0.0, strong_share=0.0, each_share=0.0, cosine=None)
PROMISED = {
    False: "promised without embeddings: B1024 >= 78, B4096 >= 89",
    True: "promised with a real model: B1024 >= 84, B4096 >= 93.5",
}

Search = Callable[[Dialogue, str], list[str]]
Row = tuple[int, list[float]]


def measured(dialogues: Sequence[Dialogue], search: Search) -> Iterator[Row]:
    """Ask every question; yield its category and its scores."""
    for dialogue in dialogues:
        costs = {line.id: line.cost for line in dialogue.lines}
        for question in dialogue.questions:
            yield question.kind, scores(search(dialogue, question.text), question, costs)


def peers(dialogues: Sequence[Dialogue], model: Embeddings | None) -> dict[str, Search]:
    """Return the searches that ours is compared with."""
    words = {
        each.name: PlainFts5(
            [f"{line.said_at:%d %B %Y} {line.speaker}: {line.text}" for line in each.lines]
        )
        for each in dialogues
    }

    def fts5(dialogue: Dialogue, query: str) -> list[int]:
        return words[dialogue.name].search(query, DEEPEST)

    places: dict[str, Callable[[Dialogue, str], list[int]]] = {"FTS5, porter": fts5}
    if model is not None:
        near = {
            each.name: PlainDense([f"{line.speaker}: {line.text}" for line in each.lines], model)
            for each in dialogues
        }

        def dense(dialogue: Dialogue, query: str) -> list[int]:
            return near[dialogue.name].search(query, DEEPEST)

        def rrf(dialogue: Dialogue, query: str) -> list[int]:
            return fused([fts5(dialogue, query), dense(dialogue, query)], DEEPEST)

        places |= {"dense": dense, "RRF of the two, k=60": rrf}

    def named(find: Callable[[Dialogue, str], list[int]]) -> Search:
        return lambda dialogue, query: [dialogue.lines[at].id for at in find(dialogue, query)]

    return {name: named(find) for name, find in places.items()}


def ours(recall: Recall, depth: int = DEEPEST) -> Search:
    """Return the search of a recall as the benchmark asks it."""

    def search(dialogue: Dialogue, query: str) -> list[str]:
        hits = recall.search(query, session_id=dialogue.name, user_id=dialogue.name, k=depth)
        return [hit.message_id for hit in hits]

    return search


def answered(recall: Recall, dialogues: Sequence[Dialogue]) -> tuple[int, int]:
    """Ask what nobody talked about; return how many questions bring back anything, and of how many.

    Each question is asked in every dialogue.
    """
    questions = UNRELATED.read_text(encoding="utf-8").splitlines()
    search = ours(recall, 1)
    found = sum(bool(search(each, text)) for each in dialogues for text in questions)
    return found, len(questions) * len(dialogues)


def model_named(name: str, cache: Path | None) -> Embeddings | None:
    """Return the embedding model that an option names."""
    if name == "minilm":
        return MiniLM(cache)
    return HashingEmbeddings(dim=512) if name == "hashing" else None


def report(
    name: str, store: TranscriptStore, dialogues: Sequence[Dialogue], model: Embeddings | None,
    *, unrelated: bool,
) -> list[str]:  # fmt: skip
    """Print what a store's recall finds; return the lines about unrelated questions."""
    lines = []
    with ExitStack() as stack:
        chroma = None
        if model is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            chroma = ChromaIndex(Path(folder) / "chroma", embeddings=model)
        recall = stack.enter_context(Recall(store, chroma))
        started = time.perf_counter()
        for dialogue in dialogues:
            play_in(store, dialogue, dialogue.name, dialogue.name)
        recall.index()
        indexed, started = time.perf_counter() - started, time.perf_counter()
        rows = list(measured(dialogues, ours(recall)))
        print(table(f"Recall, {name}", rows), flush=True)
        print(
            f"  {PROMISED[isinstance(model, MiniLM)]}; {indexed:.1f} s to index, "
            f"{(time.perf_counter() - started) / len(rows) * 1e3:.1f} ms a question",
            flush=True,
        )
        if unrelated:
            found, asked = answered(recall, dialogues)
            stack.enter_context(bare := Recall(store, chroma, floor=NO_FLOOR))
            without = list(measured(dialogues, ours(bare)))
            print(table(f"Recall, {name}, no floor", without, kinds=False), flush=True)
            lines.append(
                f"{name}: of {asked:,} unrelated questions {found} bring back anything: "
                f"{100 * found / asked:.1f} % (promised: at most 2 %); the floor costs "
                + ", ".join(
                    f"{_mean(without, at) - _mean(rows, at):.1f} points of {label}"
                    for label, at in (("B1024", 3), ("B4096", 5))
                )
                + " (promised: at most 1)"
            )
    return lines


def _mean(rows: Sequence[Row], column: int) -> float:
    return 100 * sum(row[column] for _, row in rows) / len(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, help="LoCoMo, .json or .json.gz")
    parser.add_argument("--embeddings", choices=("none", "hashing", "minilm"), default="none")
    parser.add_argument("--cache", type=Path, help=".npz that keeps vectors between runs")
    parser.add_argument("--postgres", help="URL of a database that the run may fill")
    parser.add_argument("--no-captions", action="store_true", help="leave captions of photos out")
    parser.add_argument("--unrelated", action="store_true")
    options = parser.parse_args()
    if options.data is None:
        print("It needs DATA, the LoCoMo dialogues (CC BY-NC 4.0): none are given, none are read.")
        return
    dialogues = read_dialogues(options.data, captions=not options.no_captions)
    model = model_named(options.embeddings, options.cache)
    print(f"{len(dialogues)} dialogues, {sum(len(each.lines) for each in dialogues):,} messages")
    print(HEADER, flush=True)
    for name, search in peers(dialogues, model).items():
        print(table(name, measured(dialogues, search)), flush=True)
    said = []
    with (
        tempfile.TemporaryDirectory() as folder,
        TranscriptStore(f"sqlite:///{folder}/memory.db") as store,
    ):
        name = f"SQLite, {options.embeddings}"
        said += report(name, store, dialogues, model, unrelated=options.unrelated)
    if options.postgres:
        with TranscriptStore(options.postgres) as store:
            name = f"PostgreSQL, {options.embeddings}"
            said += report(name, store, dialogues, model, unrelated=options.unrelated)
    for line in said:
        print(line)
    if isinstance(model, MiniLM):
        model.keep()


if __name__ == "__main__":
    main()
