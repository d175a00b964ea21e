"""Recall: old messages come back verbatim when they match the question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_tokenmem._lazy import loader

if TYPE_CHECKING:
    from langchain_tokenmem.recall.chroma import ChromaIndex
    from langchain_tokenmem.recall.embeddings import HashingEmbeddings
    from langchain_tokenmem.recall.vector_store import VectorStoreIndex
    from langchain_tokenmem.recall.words import LexicalIndex

__all__ = [
    "ChromaIndex",
    "HashingEmbeddings",
    "LexicalIndex",
    "VectorStoreIndex",
]

__getattr__, __dir__ = loader(
    __name__,
    {
        "ChromaIndex": "recall.chroma",
        "HashingEmbeddings": "recall.embeddings",
        "LexicalIndex": "recall.words",
        "VectorStoreIndex": "recall.vector_store",
    },
)
