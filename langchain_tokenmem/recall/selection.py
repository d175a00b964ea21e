"""Selection of the place where the vectors of a recall are searched."""

from __future__ import annotations

from typing import Literal

from langchain_tokenmem.core.argument_checks import checked_choice
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.embeddings import AnyEmbeddings, as_embeddings
from langchain_tokenmem.recall.stored_vectors import StoredVectors
from langchain_tokenmem.recall.vector_index import VectorIndex
from langchain_tokenmem.recall.vector_store import VectorStoreIndex
from langchain_tokenmem.storage.search_index import SearchIndex

ModelChange = Literal["refuse", "rebuild"]


def vector_index(
    store: SearchIndex,
    index: ChromaIndex | VectorStoreIndex | None,
    embeddings: AnyEmbeddings | None,
    on_model_change: ModelChange,
) -> VectorIndex | None:
    """Return the vectors of a recall; None where it searches words alone.

    Raises:
        ConfigurationError: When what is given is no index, or two places are given.
    """
    checked_choice(on_model_change, ModelChange, "on_model_change")
    if index is not None and not isinstance(index, ChromaIndex | VectorStoreIndex):
        raise ConfigurationError(
            f"{type(index).__name__} is no index of recall; pass a ChromaIndex, a VectorStoreIndex "
            f"around a LangChain vector store, or embeddings= for exact search in the store itself."
        )
    if index is not None and embeddings is not None:
        raise ConfigurationError(
            "Recall was given an index and embeddings=; an index has its own model: give it there."
        )
    if embeddings is not None:
        backend: ChromaIndex | VectorStoreIndex | StoredVectors = StoredVectors(
            as_embeddings(embeddings)
        )
    elif index is not None:
        backend = index
    else:
        return None
    return VectorIndex(store, backend, rebuilds=on_model_change == "rebuild")
