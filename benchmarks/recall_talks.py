"""Evidence that recall finds in talks of three kinds, beside the usual ways of searching.

Questions with labelled evidence. A unit is one message. R@n is the mean share of a question's
evidence among the first n hits; Bn the share within n tokens (o200k) when hits are shown in rank
order, each as one line with date and speaker. Of a long message the part that matches is shown and
charged, by every system alike. Beside `Recall`: SQLite FTS5 (Porter stems, date and speaker in the
text), vectors alone, and reciprocal-rank fusion of the two. Each kind of question is compared with
FTS5, question by question: `!` marks what is significantly below it.

With `--unrelated` it also asks 200 unrelated questions and prints how many of them get hits, and
what is found without the floor that prevents this. (BEAM's talks are about programming, and so are
some of the questions.)

Neither the data (see `_talks.py`) nor the model is part of this project.

Run: python benchmarks/recall_talks.py DATA ... [--embeddings none|hashing|minilm] [--cache FILE]
     [--postgres URL] [--unrelated]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from _models import MiniLM
from _peers import PlainDense, PlainFts5, fused
from _talks import (
    DEEPEST,
    HEADER,
    Dialogue,
    Found,
    Row,
    difference,
    line_of,
    play_in,
    read_dialogues,
    scores,
    shown,
)
from langchain_core.embeddings import Embeddings

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings
from langchain_tokenmem.recall.fusion import Floor
from langchain_tokenmem.recall.text_parts import parts_of

UNRELATED = Path(__file__).with_name("_unrelated.txt")
NO_FLOOR = Floor(share=0.0, strong_share=0.0, each_share=0.0, cosine=None)

Search = Callable[[Dialogue, str], Found]


def measured(dialogues: Sequence[Dialogue], search: Search) -> Iterator[Row]:
    """Ask every question; yield its kind and its scores."""
    for dialogue in dialogues:
        for question in dialogue.questions:
            yield question.kind, scores(search(dialogue, question.text), question)


def peers(dialogues: Sequence[Dialogue], model: Embeddings | None) -> dict[str, Search]:
    """Return the searches that ours is compared with, over the same parts of long messages."""
    parts = {
        each.name: [(line, part) for line in each.lines for part in parts_of(line.text)]
        for each in dialogues
    }
    words = {
        name: PlainFts5([f"{line.said_at:%d %B %Y} {line.speaker}: {part}" for line, part in those])
        for name, those in parts.items()
    }

    def fts5(dialogue: Dialogue, query: str) -> list[int]:
        return words[dialogue.name].search(query, DEEPEST)

    places: dict[str, Callable[[Dialogue, str], list[int]]] = {"FTS5, porter": fts5}
    if model is not None:
        near = {
            name: PlainDense([f"{line.speaker}: {part}" for line, part in those], model)
            for name, those in parts.items()
        }

        def dense(dialogue: Dialogue, query: str) -> list[int]:
            return near[dialogue.name].search(query, DEEPEST)

        def rrf(dialogue: Dialogue, query: str) -> list[int]:
            return fused([fts5(dialogue, query), dense(dialogue, query)], DEEPEST)

        places |= {"vectors": dense, "RRF of the two, k=60": rrf}

    def named(find: Callable[[Dialogue, str], list[int]]) -> Search:
        def search(dialogue: Dialogue, query: str) -> Found:
            found = [parts[dialogue.name][at] for at in find(dialogue, query)]
            return [(line.id, shown(line.said_at, line.speaker, part)) for line, part in found]

        return search

    return {name: named(find) for name, find in places.items()}


def ours(recall: Recall, depth: int = DEEPEST) -> Search:
    """Return the search of a recall as the benchmark asks it."""

    def search(dialogue: Dialogue, query: str) -> Found:
        hits = recall.search(query, session_id=dialogue.name, user_id=dialogue.name, k=depth)
        return [(hit.message_id, shown(hit.created_at, hit.name, hit.text)) for hit in hits]

    return search


def answered(recall: Recall, dialogues: Sequence[Dialogue]) -> tuple[int, int]:
    """Ask unrelated questions in every dialogue; return how many got hits, and of how many."""
    questions = UNRELATED.read_text(encoding="utf-8").splitlines()
    search = ours(recall, 1)
    found = sum(bool(search(each, text)) for each in dialogues for text in questions)
    return found, len(questions) * len(dialogues)


def model_named(name: str, cache: Path | None) -> Embeddings | None:
    """Return the embedding model that an option names."""
    if name == "minilm":
        return MiniLM(cache)
    return HashingEmbeddings(dim=512) if name == "hashing" else None


def compared(system: str, rows: Sequence[Row], fts5: Sequence[Row]) -> Iterator[str]:
    """Yield a line for all questions and one for each kind, each with its difference to FTS5."""
    kinds = ["", *dict.fromkeys(kind for kind, _ in rows)]
    for kind in kinds:
        mine = [row for name, row in rows if kind in ("", name)]
        other = [row for name, row in fts5 if kind in ("", name)]
        yield line_of(system if not kind else "", kind or "all", mine)
        yield f"{'':38} to FTS5: {difference(mine, other)}"


def report(
    name: str, store: TranscriptStore, dialogues: Sequence[Dialogue], model: Embeddings | None,
    fts5: Sequence[Row], *, unrelated: bool,
) -> None:  # fmt: skip
    """Print what a store's recall finds."""
    with ExitStack() as stack:
        chroma = None
        if model is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            chroma = ChromaIndex(Path(folder) / "chroma", embeddings=model)
        recall = stack.enter_context(Recall(store, chroma))
        started = time.process_time()
        for dialogue in dialogues:
            play_in(store, dialogue, dialogue.name, dialogue.name)
        recall.index()
        indexed, started = time.process_time() - started, time.process_time()
        rows = list(measured(dialogues, ours(recall)))
        asked_s = time.process_time() - started
        print("\n".join(compared(f"Recall, {name}", rows, fts5)), flush=True)
        count = sum(len(each.lines) for each in dialogues)
        print(
            f"  {indexed / count * 1e3:.1f} ms of CPU a message to index, "
            f"{asked_s / len(rows) * 1e3:.1f} ms a question for {DEEPEST} hits",
            flush=True,
        )
        if unrelated:
            found, asked = answered(recall, dialogues)
            stack.enter_context(bare := Recall(store, chroma, floor=NO_FLOOR))
            without = list(measured(dialogues, ours(bare)))
            print(line_of("  without a floor", "all", [row for _, row in without]))
            print(
                f"  {found} of {asked:,} unrelated questions got hits: {100 * found / asked:.1f} %",
                flush=True,
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", type=Path, help="talks, .json or .json.gz")
    parser.add_argument("--embeddings", choices=("none", "hashing", "minilm"), default="none")
    parser.add_argument("--cache", type=Path, help=".npz that keeps vectors between runs")
    parser.add_argument("--postgres", help="URL of a database that the run may fill")
    parser.add_argument("--no-captions", action="store_true", help="leave captions of photos out")
    parser.add_argument("--unrelated", action="store_true")
    options = parser.parse_args()
    if not options.data:
        print("It needs DATA, talks with questions: none are given, none are read.")
        return
    model = model_named(options.embeddings, options.cache)
    for path in options.data:
        dialogues = read_dialogues(path, captions=not options.no_captions)
        count = sum(len(each.lines) for each in dialogues)
        print(
            f"\n{path.name}: {len(dialogues)} dialogues, {count:,} messages\n{HEADER}", flush=True
        )
        others = {
            name: list(measured(dialogues, find)) for name, find in peers(dialogues, model).items()
        }
        for name, rows in others.items():
            print(line_of(name, "all", [row for _, row in rows]), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            urls = {"SQLite": f"sqlite:///{folder}/memory.db", "PostgreSQL": options.postgres}
            for name, url in urls.items():
                if url:
                    with TranscriptStore(url) as store:
                        fts5 = others["FTS5, porter"]
                        report(name, store, dialogues, model, fts5, unrelated=options.unrelated)
    if isinstance(model, MiniLM):
        model.keep()


if __name__ == "__main__":
    main()
