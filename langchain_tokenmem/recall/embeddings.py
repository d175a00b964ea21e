"""Embedding models: conversion from objects, functions and names; fingerprints; hashing."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from langchain_core.embeddings import Embeddings

from langchain_tokenmem.errors import ConfigurationError, RecallError, TokenMemoryError

Vectors = npt.NDArray[np.float32]
"""One row per text."""

PROBE = (
    "The quick brown fox agreed on a price of 42 euros; see src/auth.py, line 7. "
    "¿Dónde está la biblioteca? 明日の会議は何時ですか。"
)
"""Text whose vector identifies a model."""

TEXT_VERSION = "1"
"""Version of the rules for the embedded texts of messages (`filling`)."""

_PROBE_NUMBERS = 64
"""How many numbers of the probe's vector are kept."""

_SAME_PROBE = 0.995
"""Least cosine of two probes of one model. A service's answers differ by rounding, hardware and
batch (cosine above 0.999); the probes of two models are unrelated."""

_NAME_ATTRIBUTES = ("model", "model_name", "model_id", "deployment", "repo_id")
"""Attributes of LangChain's embedding classes that hold the name of the model."""

_WORD = re.compile(r"\w+")
_GRAM = 3
_GRAM_WEIGHT = 0.3
"""Letters of a gram, and its weight relative to a whole word."""


class HashingEmbeddings(Embeddings):
    """Vectors from hashed words and letters: offline, deterministic, no model, no download.

    This is not a semantic embedding: two texts are near when they share words or pieces of words;
    "car" and "automobile" are not near. It finds nothing that the search by words does not. Use it
    in tests and demonstrations, or to try vectors before you choose a model.

    The vector uses the signed hashing trick (Weinberger et al., 2009): each feature adds to one
    dimension, with a sign from the same hash, so that collisions cancel out on average. Features
    are words with weight 1 + log(count), and their letter trigrams with a lower weight.

    Args:
        dim: Dimensions of a vector; far below 256, long texts become similar.

    Raises:
        ConfigurationError: When `dim` is not a whole number of at least 2.

    Example:
        >>> embeddings = HashingEmbeddings(dim=64)
        >>> one, same = embeddings.embed_query("red apple"), embeddings.embed_query("Red apple!")
        >>> one == same, len(one)
        (True, 64)
    """

    def __init__(self, dim: int = 256) -> None:
        if type(dim) is not int or dim < 2:  # noqa: PLR2004
            raise ConfigurationError(f"dim is {dim!r}; it is a whole number of at least 2.")
        self.dim = dim
        self.model = f"tokenmem-hashing-{dim}"

    def __repr__(self) -> str:
        return f"HashingEmbeddings({self.dim})"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector of length 1 for each text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text; documents and questions are treated alike."""
        vector = np.zeros(self.dim)
        for feature, weight in _features(text).items():
            number = int.from_bytes(
                hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big"
            )
            vector[(number >> 1) % self.dim] += weight if number & 1 else -weight
        if not vector.any():
            vector[0] = 1.0  # a text without a word still needs a direction
        return [float(number) for number in vector / np.linalg.norm(vector)]


def _features(text: str) -> dict[str, float]:
    # A lone surrogate has no bytes to hash.
    plain = unicodedata.normalize("NFKC", text).casefold().encode("utf-8", "replace").decode()
    words = Counter(_WORD.findall(plain))
    grams = Counter(
        f"{_GRAM}:{padded[at : at + _GRAM]}"
        for word in words.elements()
        for padded in (f"<{word}>",)
        for at in range(len(padded) - _GRAM + 1)
    )
    found = {word: 1.0 + float(np.log(count)) for word, count in words.items()}
    return found | {
        gram: _GRAM_WEIGHT * (1.0 + float(np.log(count))) for gram, count in grams.items()
    }


@dataclass(frozen=True)
class Fingerprint:
    """The model that made the vectors of an index.

    Models are compared by their vectors of `PROBE`, not by their names: an alias of the same model
    needs no rebuild, and another model of the same name is noticed.

    Attributes:
        model: Name of the model, for messages.
        dimension: Dimensions of a vector.
        analyser: Version of the rules for the embedded texts.
        probe: First numbers of the vector of `PROBE`.
    """

    model: str
    dimension: int
    analyser: str
    probe: tuple[float, ...]

    @property
    def key(self) -> str:
        """Short key of the model in the vector table."""
        plain = json.dumps(asdict(self), sort_keys=True)
        return hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()

    def is_same_model(self, other: Fingerprint) -> bool:
        """Return whether vectors of both models can be compared."""
        if (self.dimension, self.analyser) != (other.dimension, other.analyser):
            return False
        mine, theirs = np.array(self.probe), np.array(other.probe)
        size = float(np.linalg.norm(mine) * np.linalg.norm(theirs))
        return len(mine) == len(theirs) and float(np.sum(mine * theirs)) >= _SAME_PROBE * size

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return a fingerprint that was stored as JSON."""
        return cls(**{**plain, "probe": tuple(plain["probe"])})

    def __str__(self) -> str:
        return f"{self.model} ({self.dimension} dimensions, texts by rules {self.analyser})"


def fingerprint_of(embeddings: Embeddings, analyser: str, model: str | None = None) -> Fingerprint:
    """Return the fingerprint of a model; embeds one sentence.

    Args:
        embeddings: The model.
        analyser: Version of the rules for the embedded texts.
        model: Name of the model; default: the model's own.

    Raises:
        RecallError: When the model fails.
    """
    vector = embed_texts(embeddings, [PROBE], are_queries=True)[0]
    probe = tuple(round(float(number), 6) for number in vector[:_PROBE_NUMBERS])
    return Fingerprint(model or name_of(embeddings), len(vector), analyser, probe)


def name_of(embeddings: Embeddings) -> str:
    """Return the name of a model, or else of its class.

    Example:
        >>> name_of(HashingEmbeddings(dim=8))
        'tokenmem-hashing-8'
    """
    for attribute in _NAME_ATTRIBUTES:
        found = getattr(embeddings, attribute, None)
        if isinstance(found, str) and found:
            return found
    return type(embeddings).__name__


def embed_texts(
    embeddings: Embeddings,
    texts: Sequence[str],
    dimension: int | None = None,
    *,
    are_queries: bool = False,
) -> Vectors:
    """Return the vectors of texts, each of length 1.

    Args:
        embeddings: The model.
        texts: Documents or questions; some models embed them differently.
        dimension: Required dimensions of a vector, if known.
        are_queries: Whether the texts are questions.

    Raises:
        RecallError: When the model fails, or does not return one vector of finite numbers and the
            right size for each text.
    """
    try:
        found = np.asarray(
            [embeddings.embed_query(text) for text in texts]
            if are_queries
            else embeddings.embed_documents(list(texts)),
            np.float32,
        )
    except TokenMemoryError:
        raise
    except Exception as error:  # of any kind
        raise RecallError(
            f"The embedding model {name_of(embeddings)} failed ({type(error).__name__}: {error}). "
            f"Recall is lexical until it answers; messages are indexed later."
        ) from error
    size = dimension or found.shape[-1]
    if found.shape != (len(texts), size) or not np.isfinite(found).all():
        raise RecallError(
            f"{name_of(embeddings)} was given {len(texts)} texts and answered with vectors of "
            f"shape {found.shape}, or with numbers that are not finite; {len(texts)} x {size} was "
            f"expected. Nothing was stored; recall is lexical."
        )
    return unit_rows(found)


def to_bytes(vector: Vectors) -> bytes:
    """Return a vector as it is stored: float32, little-endian."""
    return vector.astype("<f4").tobytes()


def to_matrix(vectors: Mapping[int, bytes]) -> tuple[Numbers, Vectors]:
    """Return stored vectors as arrays, in the order of their units."""
    units = sorted(vectors)
    flat = np.frombuffer(b"".join(vectors[unit] for unit in units), dtype="<f4")
    matrix = flat.reshape(len(units), -1) if units else flat.reshape(0, 0)
    return np.array(units, np.int64), matrix.astype(np.float32, copy=False)


def unit_rows(vectors: Vectors) -> Vectors:
    """Return the rows with length 1; rows of zeros stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return found


EmbeddingFunction = Callable[[list[str]], Any]
"""`f(texts) -> vectors`, one for each text; sync or async, as LangGraph's stores accept it."""

AnyEmbeddings = Embeddings | EmbeddingFunction | str


def as_embeddings(given: AnyEmbeddings) -> Embeddings:
    """Return an embedding model.

    Args:
        given: Any LangChain `Embeddings`; a sync or async function of a list of texts that returns
            their vectors; or a name such as `openai:text-embedding-3-small` for LangChain's
            `init_embeddings`, which needs the provider's package.

    Raises:
        ConfigurationError: When it is of another type, or the named model cannot be created.
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

    # OpenAI's class would download a vocabulary to check the length of texts, which are short here.
    options: dict[str, Any] = (
        {"check_embedding_ctx_length": False} if name.startswith("openai:") else {}
    )
    try:
        made = init_embeddings(name, **options)
    except Exception as error:  # differs by provider: no key, no package, no such name
        raise ConfigurationError(
            f"embeddings is {name!r}, and this model could not be loaded: {error}. Pass another "
            f"name, an Embeddings object, or HashingEmbeddings() to try things out offline."
        ) from error
    if not isinstance(made, Embeddings):
        raise ConfigurationError(f"embeddings is {name!r}, which names {made!r}, not a model.")
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
        """Return the vectors of texts."""
        found = self._function(texts)
        if inspect.isawaitable(found):
            # In another thread: the caller may run in an event loop.
            with ThreadPoolExecutor(1) as pool:
                found = pool.submit(asyncio.run, _awaited(found)).result()
        return [list(vector) for vector in found]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        return self.embed_documents([text])[0]


async def _awaited(vectors: Awaitable[Sequence[Any]]) -> Sequence[Any]:
    return await vectors


Numbers = npt.NDArray[np.int64]
"""Unit numbers (`core.search_units`), one per row of vectors."""
