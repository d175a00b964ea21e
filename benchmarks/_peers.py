"""Searches that recall is compared with: FTS5 alone, dense alone, and the usual fusion of both."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

import numpy as np
from langchain_core.embeddings import Embeddings

RRF = 60
"""Constant of reciprocal-rank fusion (Cormack, Clarke, Buettcher 2009)."""


class PlainFts5:
    """SQLite FTS5 with the Porter stemmer over one text per message."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(
            "CREATE VIRTUAL TABLE messages USING fts5(body, tokenize='porter unicode61')"
        )
        self._connection.executemany(
            "INSERT INTO messages(rowid, body) VALUES (?, ?)", enumerate(texts)
        )

    def search(self, query: str, most: int) -> list[int]:
        """Return the positions of the best texts, best first."""
        words = re.findall(r"\w+", query)
        asked = " OR ".join(f'"{word}"' for word in words)
        return [
            row[0]
            for row in self._connection.execute(
                "SELECT rowid FROM messages WHERE messages MATCH ? ORDER BY rank LIMIT ?",
                (asked, most),
            )
        ]


class PlainDense:
    """Cosine over one vector per message."""

    def __init__(self, texts: Sequence[str], embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._vectors = unit_rows(np.asarray(embeddings.embed_documents(list(texts))))

    def search(self, query: str, most: int) -> list[int]:
        """Return the positions of the best texts, best first."""
        asked = unit_rows(np.asarray([self._embeddings.embed_query(query)]))[0]
        return [int(place) for place in np.argsort(-(self._vectors @ asked), kind="stable")[:most]]


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Return the rows at length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1.0, lengths)


def fused(rankings: Sequence[Sequence[int]], most: int) -> list[int]:
    """Return what reciprocal-rank fusion makes of several rankings."""
    points: dict[int, float] = {}
    for ranking in rankings:
        for rank, place in enumerate(ranking, 1):
            points[place] = points.get(place, 0.0) + 1 / (RRF + rank)
    return sorted(points, key=lambda place: (-points[place], place))[:most]
