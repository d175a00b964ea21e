"""Where the stored vectors answer better than Chroma: exact search beside the graph, one scope.

Random vectors with neighbours alike (a walk), 384 numbers each, one user among others. Printed are
the medians of a search, and how many of the true ten nearest Chroma finds. `EXACT_MOST` in
`recall/vectors.py` is chosen by this.

Run: python benchmarks/recall_exact.py [TOTAL]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.vectors import VectorIndex

DIM = 384
SIZES = (500, 1_000, 2_000, 4_000)


class Walk(Embeddings):
    """Each text is a little off the one before it; texts are numbers."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._at = self._random.standard_normal(DIM)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        made = []
        for _ in texts:
            self._at = 0.8 * self._at + 0.6 * self._random.standard_normal(DIM)
            made.append(self._at.tolist())
        return made

    def embed_query(self, text: str) -> list[float]:
        made: list[float] = np.random.default_rng(len(text)).standard_normal(DIM).tolist()
        return made


def filled(folder: Path, total: int) -> tuple[TranscriptStore, ChromaIndex]:
    store = TranscriptStore(f"sqlite:///{folder}/memory.db", shared=True)
    chroma = ChromaIndex(folder / "chroma", embeddings=Walk())
    others = (total - sum(SIZES)) // 1_000
    for size in (*SIZES, *[1_000] * max(0, others)):
        name = f"s{size}" if size in store_sizes(store) else f"o{time.monotonic_ns()}"
        messages = [HumanMessage(str(n), id=f"{name}-{n}") for n in range(size)]
        store.add(name, messages, user_id=name)
    begun = time.perf_counter()
    index = VectorIndex(store.index, chroma.embeddings, chroma, batch=500)
    count = index.index()
    print(f"indexed {count:,} in {time.perf_counter() - begun:.0f} s")
    return store, chroma


def store_sizes(store: TranscriptStore) -> set[int]:
    return set(SIZES) - {int(name[1:]) for name in store.sessions() if name.startswith("s")}


def searched(index: VectorIndex, store: TranscriptStore, size: int) -> tuple[float, list[set[int]]]:
    """Return the median of a search in milliseconds, and what each found."""
    times, found = [], []
    for number in range(20):
        with store.index.reading(Scope(f"s{size}")) as reader:
            assert reader is not None
            begun = time.perf_counter()
            hits = index.search(index.question("x" * (number + 1)), reader, 10)
            times.append(time.perf_counter() - begun)
            found.append({unit for unit, _ in hits})
    return 1_000 * statistics.median(times), found


def main() -> None:
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        store, chroma = filled(Path(folder), total)
        exact = VectorIndex(store.index, chroma.embeddings, chroma, exact_most=10**9)
        graph = VectorIndex(store.index, chroma.embeddings, chroma, exact_most=0)
        print(f"{total:,} vectors of {DIM} numbers in all\n")
        print("| in scope | exact ms | Chroma ms | of the true ten Chroma finds |")
        print("|---|---|---|---|")
        for size in SIZES:
            exact_ms, truth = searched(exact, store, size)
            graph_ms, found = searched(graph, store, size)
            hits = sum(len(one & other) for one, other in zip(truth, found, strict=True))
            share = hits / sum(map(len, truth))
            print(f"| {size:,} | {exact_ms:.1f} | {graph_ms:.1f} | {share:.2f} |")
        graph.close()
        store.close()


if __name__ == "__main__":
    main()
