"""Vectors in Chroma: embedded, on a server, or in Chroma Cloud. The only module that imports it.

Chroma is given vectors and numbers, nothing else: ids are unit numbers, metadata are the numbers
of shelf and owner. No text, no name, no id of the application ever reaches it, so it needs no
embedding function, and nothing that was said can be read from its files.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.vectors.collection import (
    ChromaCollection,
    DamagedIndexError,
    MissingIndexError,
    told,
)
from langchain_tokenmem.recall.vectors.folder import ChromaFolder
from langchain_tokenmem.recall.vectors.http import bound, check_answers, close_sessions

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,398}[a-zA-Z0-9]")
_MOST_AT_ONCE = 1_000
"""Vectors in one request; Chroma's own bound (5,461 embedded) is asked for and never passed."""

_GRAPH = {"hnsw": {"ef_search": 200, "ef_construction": 200, "max_neighbors": 32}}
"""Of the true ten nearest of 20,000 vectors, Chroma's defaults find 0.85 (FACTS.md)."""

_DEFAULT = "chroma-default"


class ChromaIndex:
    """Where the vectors of a `Recall` live, and what makes them.

    Exactly one of `path`, `client`, `host` and `cloud` says where. The embedded mode is for one
    process at a time: a second one gets a `RecallError` that says how to run a server, and goes on
    with lexical recall. Nothing is opened before it is used.

    Args:
        path: Folder of an embedded Chroma.
        embeddings: Any LangChain `Embeddings`, or `"chroma-default"` for the model that Chroma
            brings along, which downloads about 80 MB on first use. It is never used unless asked
            for by this name.
        client: A client of `chromadb`, made and closed by the application.
        host: Host of a server (`chroma run`).
        port: Its port.
        ssl: Whether it speaks TLS.
        headers: Sent with every request, for example for authentication.
        cloud: `tenant`, `database` and `api_key` of Chroma Cloud; what is left out is read from
            CHROMA_TENANT, CHROMA_DATABASE and CHROMA_API_KEY.
        collection: First part of the names of the collections. The rest comes from the store, so
            that several stores may use one Chroma.
        model: Name of the embedding model in messages; default: what the object says of itself.
        timeout_s: Seconds that a server or Chroma Cloud may take for one request.

    Raises:
        ConfigurationError: When it is not clear where the vectors are, or the name cannot be used.

    Example:
        >>> from langchain_tokenmem import ChromaIndex, HashingEmbeddings
        >>> chroma = ChromaIndex("./chroma", embeddings=HashingEmbeddings(dim=256))
        >>> chroma.where
        'the embedded Chroma in chroma'
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        embeddings: Embeddings | str,
        client: ClientAPI | None = None,
        host: str | None = None,
        port: int = 8000,
        ssl: bool = False,
        headers: Mapping[str, str] | None = None,
        cloud: Mapping[str, str] | None = None,
        collection: str = "tokenmem",
        model: str | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        places = {"path": path, "client": client, "host": host, "cloud": cloud}
        given = [name for name, value in places.items() if value is not None]
        if len(given) != 1:
            raise ConfigurationError(
                f"ChromaIndex takes exactly one of path, client, host and cloud, and was given "
                f"{' and '.join(given) or 'none'}."
            )
        if not _NAME.fullmatch(collection):
            raise ConfigurationError(
                f"collection is {collection!r}; Chroma takes 3 to 400 of [a-zA-Z0-9._-], with a "
                f"letter or digit at both ends."
            )
        self.embeddings = _checked(embeddings)
        self.model = model
        self._timeout_s = timeout_s
        self.collection = collection
        self._path = None if path is None else Path(path)
        self._folder = None if self._path is None else ChromaFolder(self._path)
        self._client: Any = client
        self._is_ours = client is None
        self._process = os.getpid()
        self._server: dict[str, Any] = {
            "host": host,
            "port": port,
            "ssl": ssl,
            "headers": dict(headers or {}),
        }
        self._cloud = None if cloud is None else dict(cloud)
        self._opening = threading.RLock()

    @property
    def where(self) -> str:
        """Where the vectors are, in words."""
        if self._path is not None:
            return f"the embedded Chroma in {self._path}"
        if self._cloud is not None:
            return "Chroma Cloud"
        if self._server["host"] is not None:
            return f"the Chroma server at {self._server['host']}:{self._server['port']}"
        return "the given Chroma client"

    def connect(self) -> ClientAPI:
        """Return the client, opened on first use.

        Raises:
            RecallError: When chromadb cannot be imported, when another process has the folder, or
                when nothing answers.
        """
        with self._opening:
            if self._folder is not None:
                self._folder.take()
            if self._is_ours and self._process != os.getpid():
                # A forked child must not talk through its parent's connections, nor close them.
                self._client, self._process = None, os.getpid()
            if self._client is None:
                if self._folder is not None:
                    self._folder.make_sound()
                with told(f"Opening {self.where}"):
                    self._client = self._made()
            return self._client  # type: ignore[no-any-return]

    def _made(self) -> ClientAPI:
        chromadb = _imported()
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        if self._path is not None:
            return chromadb.PersistentClient(str(self._path), settings=settings)  # type: ignore[no-any-return]
        if self._cloud is not None:
            made: ClientAPI = chromadb.CloudClient(settings=settings, **self._cloud)
        else:
            check_answers(**self._server, timeout_s=self._timeout_s)
            made = chromadb.HttpClient(settings=settings, **self._server)
        bound(made, self._timeout_s)
        return made

    def open(self, name: str) -> ChromaCollection:
        """Return a collection.

        Raises:
            MissingIndexError: When there is none of this name.
        """
        client = self.connect()
        with told(f"Opening collection {name} of {self.where}"):
            # Whatever function the stored configuration names is not loaded: None, always.
            found = client.get_collection(name, embedding_function=None)
        return ChromaCollection(found, self.where, self._most_at_once())

    def make(self, name: str, metadata: Mapping[str, str | int]) -> ChromaCollection:
        """Return a new collection; one of this name that is there already is dropped."""
        self.drop(name)
        client = self.connect()
        options: dict[str, Any] = {} if self._cloud is not None else {"configuration": _GRAPH}
        with told(f"Making collection {name} in {self.where}"):
            made = client.create_collection(
                name, embedding_function=None, metadata=dict(metadata), **options
            )
        return ChromaCollection(made, self.where, self._most_at_once())

    def drop(self, name: str) -> None:
        """Delete a collection, if it is there."""
        client = self.connect()
        graph = None if self._folder is None else self._folder.take_graph(name)
        try:
            with told(f"Deleting collection {name} of {self.where}"):
                client.delete_collection(name)
        except MissingIndexError:
            graph = None
        if self._folder is not None:
            self._folder.remove_graph(graph)
            self._folder.forget(name)

    def _most_at_once(self) -> int:
        with told(f"Asking {self.where} for its bounds"):
            return min(_MOST_AT_ONCE, int(self.connect().get_max_batch_size()))

    def begin_writing(self, name: str) -> None:
        """Note that a collection is being written to (embedded only)."""
        if self._folder is not None:
            with told(f"Marking collection {name} of {self.where}"):
                self._folder.begin_writing(name)

    def end_writing(self, name: str) -> None:
        """Note that a collection is whole again."""
        if self._folder is not None:
            with told(f"Marking collection {name} of {self.where}"):
                self._folder.end_writing(name)

    def check(self, name: str) -> None:
        """Look at the files of an embedded collection before Chroma does.

        Raises:
            DamagedIndexError: When it must not be used.
        """
        if self._folder is None:
            return
        self.connect()
        with told(f"Looking at the files of {self.where}"):
            fault = self._folder.fault_of(name)
        if fault is not None:
            raise DamagedIndexError(
                f"Collection {name} of {self.where}: {fault}. It is made anew from the store; "
                f"until then recall is lexical."
            )

    def close(self) -> None:
        """Close the client, unless the application made it, and let other processes in."""
        with self._opening:
            self._forget_client()
            if self._folder is not None:
                self._folder.give_back()

    def _forget_client(self) -> None:
        if not self._is_ours or self._client is None:
            return
        client, self._client = self._client, None
        with told(f"Closing {self.where}"):
            close_sessions(client)
            if hasattr(client, "close"):  # since chromadb 1.5
                client.close()


def _imported() -> Any:
    try:
        import chromadb  # noqa: PLC0415  # takes a second, and may be missing or broken
        import chromadb.config  # noqa: PLC0415
    except Exception as error:  # an old SQLite makes it raise RuntimeError
        raise RecallError(
            f"chromadb cannot be imported ({type(error).__name__}: {error}). Dense recall needs "
            f"it: pip install 'chromadb>=1.0'. Everything else works without."
        ) from error
    return chromadb


def _checked(embeddings: Embeddings | str) -> Embeddings:
    if isinstance(embeddings, Embeddings):
        return embeddings
    if embeddings == _DEFAULT:
        return _ChromaDefault()
    raise ConfigurationError(
        f"embeddings is {embeddings!r}; pass a LangChain Embeddings object, HashingEmbeddings() "
        f'to try things out offline, or "{_DEFAULT}" for the model that Chroma downloads.'
    )


class _ChromaDefault(Embeddings):
    """The model that Chroma brings along, asked for by name."""

    model = "chroma-default (all-MiniLM-L6-v2, ONNX)"

    def __init__(self) -> None:
        self._function: Callable[[list[str]], Any] | None = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self._function is None:
            _imported()
            from chromadb.utils.embedding_functions import DefaultEmbeddingFunction  # noqa: PLC0415

            self._function = DefaultEmbeddingFunction()
        return [[float(number) for number in vector] for vector in self._function(texts)]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]
