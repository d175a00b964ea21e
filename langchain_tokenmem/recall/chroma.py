"""`ChromaIndex`: Chroma as it is configured; embedded, on a server, or in Chroma Cloud.

Chroma is given vectors and numbers, nothing else: ids are unit numbers, metadata are the numbers
of partition and owner. No text, no name, no id of the application ever reaches it, so it needs no
embedding function, and nothing that was said can be read from its files. No other module imports
chromadb.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_tokenmem.background import TimedCalls
from langchain_tokenmem.core.search_units import ScopePartitions, unpack_unit
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.embedded_folder import EmbeddedFolder
from langchain_tokenmem.recall.embeddings import AnyEmbeddings, Vectors, as_embeddings
from langchain_tokenmem.recall.place import BrokenCollectionError, Question, ask_place
from langchain_tokenmem.recall.vector_math import Numbers

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,398}[a-zA-Z0-9]")
_GRAPH = {"hnsw": {"ef_search": 200, "ef_construction": 200, "max_neighbors": 32}}
"""Of the true ten nearest of 20,000 vectors, Chroma's defaults find 0.85 (chromadb 1.5.9)."""

_BATCH_SIZE = 1_000
"""Vectors in one request; Chroma's own bound (5,461 embedded) is asked for and never passed."""

_DEFAULT = "chroma-default"


class ChromaIndex:
    """The place of the vectors of a `Recall`, and the model that makes them.

    Exactly one of `path`, `client`, `host` and `cloud` says where. The embedded mode is for one
    process at a time: a second one gets a `RecallError` that says how to run a server, and goes on
    with lexical recall. Nothing is opened before it is used.

    Args:
        path: Folder of an embedded Chroma.
        embeddings: As `as_embeddings` takes it, or `"chroma-default"` for the model that Chroma
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
        embeddings: AnyEmbeddings,
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
        is_default = isinstance(embeddings, str) and embeddings == _DEFAULT
        self.embeddings = _ChromaDefault() if is_default else as_embeddings(embeddings)
        self.model = model
        self.prefix = f"{collection}-chroma-"
        self._calls = TimedCalls("tokenmem-vectors")
        self._timeout_s = timeout_s if host is not None or cloud is not None else None
        self._path = None if path is None else Path(path)
        self._folder = None if self._path is None else EmbeddedFolder(self._path)
        self._server: dict[str, Any] = {
            "host": host,
            "port": port,
            "ssl": ssl,
            "headers": dict(headers or {}),
        }
        self._cloud = None if cloud is None else dict(cloud)
        self._given = client
        self._clients: dict[str, Any] = {}
        self._collections: dict[str, tuple[Any, int]] = {}
        self._process = os.getpid()
        self._opening = threading.RLock()

    @property
    def where(self) -> str:
        """Place of the vectors, in words."""
        if self._path is not None:
            return f"the embedded Chroma in {self._path}"
        if self._cloud is not None:
            return "Chroma Cloud"
        if self._server["host"] is not None:
            return f"the Chroma server at {self._server['host']}:{self._server['port']}"
        return "the given Chroma client"

    def connect(self, collection: str) -> ClientAPI:
        """Return the client of a collection, opened on first use; embedded ones have their own.

        Raises:
            RecallError: When chromadb cannot be imported, when another process has the folder, or
                when nothing answers.
        """
        if self._given is not None:
            return self._given
        with self._opening:
            if self._folder is not None:
                self._folder.lock()
            elif self._process != os.getpid():
                # A forked child must not talk through its parent's connections, nor close them.
                self._clients, self._collections = {}, {}
                self._process = os.getpid()
            name = "" if self._folder is None else collection
            if name not in self._clients:
                self._clients[name] = self._ask(lambda: self._made_client(name))
            return self._clients[name]  # type: ignore[no-any-return]

    def _made_client(self, name: str) -> Any:
        chromadb = _imported()
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        if self._folder is not None:
            return chromadb.PersistentClient(str(self._folder.path_of(name)), settings=settings)
        if self._cloud is not None:
            return chromadb.CloudClient(settings=settings, **self._cloud)
        _check_answers(**self._server, timeout_s=self._timeout_s)
        return chromadb.HttpClient(settings=settings, **self._server)

    def make(self, name: str, about: Mapping[str, str | int]) -> None:
        """Make an empty collection."""
        self.clear(name)
        client = self.connect(name)
        options: dict[str, Any] = {} if self._cloud is not None else {"configuration": _GRAPH}
        with self._writing(name):
            self._ask(
                lambda: client.create_collection(
                    name, embedding_function=None, metadata=dict(about), **options
                )
            )

    def put(
        self,
        name: str,
        units: Numbers,
        vectors: Vectors,
        owner: int,
        texts: Mapping[int, str],  # noqa: ARG002  no word reaches Chroma
    ) -> None:
        """Store vectors, in the place of earlier ones of the same units."""
        collection, size = self._opened(name)
        with self._writing(name):
            for start in range(0, len(units), size):
                some = units[start : start + size].tolist()
                # Plain text: `$ne` and numbers of two types are where filters begin to leak.
                places = [
                    {"owner": str(owner), "partition": str(unpack_unit(unit)[0])} for unit in some
                ]
                self._ask(
                    partial(
                        collection.upsert,
                        ids=list(map(str, some)),
                        embeddings=vectors[start : start + size],
                        metadatas=places,
                    )
                )

    def delete(self, name: str, units: Sequence[int]) -> None:
        """Delete vectors; one that is missing is no error."""
        collection, size = self._opened(name)
        with self._writing(name):
            for start in range(0, len(units), size):
                ids = [str(unit) for unit in units[start : start + size]]
                self._ask(partial(collection.delete, ids=ids))

    def units(self, name: str, partition: int) -> list[int]:
        """Return the numbers of the vectors of one partition, in order."""
        collection, size = self._opened(name)
        page = partial(collection.get, where={"partition": str(partition)}, include=[], limit=size)
        found: list[str] = []
        while ids := self._ask(partial(page, offset=len(found)))["ids"]:
            found += ids
        return sorted(int(one) for one in found if one.isdecimal())

    def count(self, name: str) -> int:
        """Return how many vectors there are; Chroma also brings its graph up to date for it."""
        return int(self._ask(self._opened(name)[0].count))

    def propose(
        self, name: str, question: Question, within: ScopePartitions, limit: int
    ) -> list[int]:
        """Return the units in scope that Chroma takes for the nearest, the best first."""
        where: Any = {"owner": str(within.owner)}
        if not within.whole:
            own = {"partition": {"$in": [str(number) for number in within.partitions]}}
            where = {"$and": [where, own]}
        query = partial(
            self._opened(name)[0].query,
            query_embeddings=np.asarray([question.vector], np.float32),
            n_results=limit,
            where=where,
            include=[],
        )
        found = self._ask(query)
        # A collection is not the truth: what is no number of ours is not looked at.
        return [int(one) for one in found["ids"][0] if one.isdecimal()]

    def clear(self, name: str) -> None:
        """Delete a collection, if it is there."""
        with self._opening:
            self._collections.pop(name, None)
            folder = self._folder
            if folder is not None:
                folder.lock()
                self._close_client(name)
                self._ask(lambda: folder.drop(name))
                return
            client = self.connect(name)
            with suppress(BrokenCollectionError):
                self._ask(lambda: client.delete_collection(name))

    def _opened(self, name: str) -> tuple[Any, int]:
        """Return Chroma's own object of a collection that works, and how much a request may have.

        Raises:
            BrokenCollectionError: When there is none of this name, or it does not work.
        """
        with self._opening:
            if self._folder is not None and not self._folder.has(name):
                self._close_client(name)
                fault = f"Collection {name} of {self.where} is not there"
                raise BrokenCollectionError(f"{fault}. It is made anew from the store.")
            client = self.connect(name)
            if name not in self._collections:
                # Whatever function the stored configuration names is not loaded: None, always.
                found = self._ask(lambda: client.get_collection(name, embedding_function=None))
                self._ask(found.count)
                size = min(_BATCH_SIZE, int(self._ask(client.get_max_batch_size)))
                self._collections[name] = found, size
            return self._collections[name]

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Note that an embedded collection is being written to, and that it is whole again."""
        folder = self._folder
        if folder is None:
            yield
            return
        self._ask(lambda: folder.begin_writing(name))
        try:
            yield
        finally:
            with suppress(RecallError):
                # Asked to count, Chroma brings its graph up to date: nothing is under way then.
                self.count(name)
                self._ask(lambda: folder.end_writing(name))

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            if self._timeout_s is not None:
                # Chroma's HTTP client waits without end and has no setting.
                call = partial(self._calls.run, call, self._timeout_s)
            return ask_place(self.where, call)
        except RecallError as error:
            if isinstance(error.__cause__, TimeoutError):
                # The next one looks first whether the server is there.
                self._clients, self._collections = {}, {}
            raise

    def close(self) -> None:
        """Close the client, unless the application made it, and let other processes in."""
        with self._opening:
            for name in list(self._clients):
                self._close_client(name)
            self._collections = {}
            if self._folder is not None:
                self._folder.unlock()

    def _close_client(self, name: str) -> None:
        client = self._clients.pop(name, None)
        self._collections.pop(name, None)
        if hasattr(client, "close"):  # since chromadb 1.5
            self._ask(client.close)


def _check_answers(
    host: str, port: int, *, ssl: bool, headers: Mapping[str, str], timeout_s: float | None
) -> None:
    """Ask a server whether it is there: Chroma's client would wait for it without end."""
    import httpx  # noqa: PLC0415  comes with chromadb

    address = host if "://" in host else f"{'https' if ssl else 'http'}://{host}:{port}"
    httpx.get(f"{address}/api/v2/heartbeat", headers=dict(headers), timeout=timeout_s)


def _imported() -> Any:
    try:
        import chromadb.config  # noqa: PLC0415  # takes a second, and may be missing or broken
    except Exception as error:  # an old SQLite makes it raise RuntimeError
        raise RecallError(
            f"chromadb cannot be imported ({type(error).__name__}: {error}). Dense recall needs "
            f"it: pip install 'chromadb>=1.5.2'. Everything else works without."
        ) from error
    return chromadb


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
