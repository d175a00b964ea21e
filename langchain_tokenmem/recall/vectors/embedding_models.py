"""Conversion of what people bring as an embedding model: objects, functions, names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.embeddings import Embeddings

from langchain_tokenmem.errors import ConfigurationError

EmbeddingFunction = Callable[[list[str]], Any]
"""`f(texts) -> vectors`, one for each text; sync or async, as LangGraph's stores take it."""

AnyEmbeddings = Embeddings | EmbeddingFunction | str


def as_embeddings(given: AnyEmbeddings) -> Embeddings:
    """Return an embedding model.

    Args:
        given: Any LangChain `Embeddings`; a function of a list of texts that returns their vectors,
            sync or async; or a name such as `openai:text-embedding-3-small`, made by
            `langchain.embeddings.init_embeddings`, whose provider's package must be installed.

    Raises:
        ConfigurationError: When it is none of these, or the named model cannot be made.
    """
    if isinstance(given, Embeddings):
        return given
    if isinstance(given, str):
        return _named(given)
    if callable(given) and not isinstance(given, type):
        return FunctionEmbeddings(given)
    raise ConfigurationError(
        f"embeddings is {given!r}; pass a LangChain Embeddings object, a function of a list of "
        f'texts, a name such as "openai:text-embedding-3-small", or HashingEmbeddings() to try '
        f"things out offline."
    )


def _named(name: str) -> Embeddings:
    from langchain.embeddings import init_embeddings  # noqa: PLC0415  # only for names

    # What is embedded is short: to measure it, OpenAI's class would download a vocabulary.
    options: dict[str, Any] = (
        {"check_embedding_ctx_length": False} if name.startswith("openai:") else {}
    )
    try:
        made = init_embeddings(name, **options)
    except Exception as error:  # each provider's own: no key, no package, no such name
        raise ConfigurationError(
            f"embeddings is {name!r}, and no model could be made of it: {error}. Pass the name of "
            f"another one, an Embeddings object, or HashingEmbeddings() to try things out offline."
        ) from error
    if not isinstance(made, Embeddings):
        raise ConfigurationError(f"embeddings is {name!r}, which names {made!r} and no model.")
    return made


class FunctionEmbeddings(Embeddings):
    """A function as an embedding model, sync or async.

    Args:
        function: `f(texts) -> vectors`, one for each text.

    Example:
        >>> FunctionEmbeddings(lambda texts: [[1.0, 0.0] for _ in texts]).embed_query("red")
        [1.0, 0.0]
    """

    def __init__(self, function: EmbeddingFunction) -> None:
        self._function = function
        self.model = getattr(function, "__name__", type(function).__name__)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return what the function makes of texts."""
        found = self._function(texts)
        if inspect.isawaitable(found):
            # On a loop of its own: the caller may stand in one.
            with ThreadPoolExecutor(1) as pool:
                found = pool.submit(asyncio.run, _awaited(found)).result()
        return [list(vector) for vector in found]

    def embed_query(self, text: str) -> list[float]:
        """Return what the function makes of one text."""
        return self.embed_documents([text])[0]


async def _awaited(vectors: Awaitable[Sequence[Any]]) -> Sequence[Any]:
    return await vectors
