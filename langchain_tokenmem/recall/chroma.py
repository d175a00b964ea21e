"""`ChromaIndex`: vectors in Chroma; embedded, on a server, or in Chroma Cloud.

Chroma is given vectors and numbers only: ids are unit numbers, metadata are the numbers of
partition and owner. No text, name or id of the application reaches it, so it needs no embedding
function, and no message can be read from its files. No other module imports chromadb.
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
from langchain_tokenmem.recall.embeddings import AnyEmbeddings, Numbers, Vectors, as_embeddings
from langchain_tokenmem.recall.place import BrokenCollectionError, Question, ask_place

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,398}[a-zA-Z0-9]")
_GRAPH = {"hnsw": {"ef_search": 200, "ef_construction": 200, "max_neighbors": 32}}
"""With Chroma's defaults, recall of the ten nearest of 20,000 vectors is 0.85 (chromadb 1.5.9)."""

_BATCH_SIZE = 1_000
"""Vectors in one request; fewer where Chroma's own limit is smaller (embedded: 5,461)."""

_DEFAULT = "chroma-default"


class ChromaIndex:
    """Where a `Recall` looks vectors up, and the model that makes them.

    Pass exactly one of `path`, `client`, `host` and `cloud`. An embedded Chroma is for one process
    at a time: a second one gets a `RecallError` that explains how to run a server, and searches by
    words only. Nothing is opened before its first use.

    Args:
        path: Folder of an embedded Chroma.
        embeddings: The embedding model, as `Recall` accepts it, or `"chroma-default"` for Chroma's
            own model, which downloads about 80 MB on first use and is not used otherwise.
        client: A client of `chromadb`, created and closed by the application.
        host: Host of a server (`chroma run`).
        port: Port of the server.
        ssl: Whether the server uses TLS.
        headers: Headers of every request, for example for authentication.
        cloud: `tenant`, `database` and `api_key` of Chroma Cloud; defaults: CHROMA_TENANT,
            CHROMA_DATABASE and CHROMA_API_KEY.
        collection: Prefix of the names of the collections. Each store has its own, so several
            stores may share one Chroma.
        model: Name of the embedding model in messages; default: the model's own.
        timeout_s: Timeout of one request to a server or Chroma Cloud, in seconds.

    Raises:
        ConfigurationError: When none or several places are given, or the prefix is invalid.

    Example:
        >>> from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings
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

    def __repr__(self) -> str:
        return f"<ChromaIndex: {self.where}>"

    @property
    def where(self) -> str:
        """Where the vectors are, as text."""
        if self._path is not None:
            return f"the embedded Chroma in {self._path}"
        if self._cloud is not None:
            return "Chroma Cloud"
        if self._server["host"] is not None:
            return f"the Chroma server at {self._server['host']}:{self._server['port']}"
        return "the given Chroma client"

    def connect(self, collection: str) -> ClientAPI:
        """Return the client of a collection, opened on first use; each embedded one has its own.

        Raises:
            RecallError: When chromadb cannot be imported, another process uses the folder, or the
                server does not answer.
        """
        if self._given is not None:
            return self._given
        with self._opening:
            if self._folder is not None:
                self._folder.lock()
            elif self._process != os.getpid():
                # A forked child must neither use nor close its parent's connections.
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
        """Create an empty collection."""
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
        """Store vectors, replacing earlier ones of the same units."""
        collection, size = self._opened(name)
        with self._writing(name):
            for start in range(0, len(units), size):
                some = units[start : start + size].tolist()
                # Strings: filters on numbers of two types may leak.
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
        """Delete vectors; missing ones are ignored."""
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
        """Return the number of vectors; this makes Chroma update its graph, too."""
        return int(self._ask(self._opened(name)[0].count))

    def propose(
        self, name: str, question: Question, within: ScopePartitions, limit: int
    ) -> list[int]:
        """Return the units in scope that Chroma finds nearest, best first."""
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
        # Entries of others in the collection are ignored.
        return [int(one) for one in found["ids"][0] if one.isdecimal()]

    def clear(self, name: str) -> None:
        """Delete a collection, if it exists."""
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

    def scrub(self, holds: Callable[[str], bool]) -> int:
        """Delete embedded collections whose files contain words; return how many there were."""
        folder = self._folder
        if folder is None:
            return 0
        with self._opening:
            found: list[str] = self._ask(lambda: folder.holding(holds))
            for name in found:
                self.clear(name)
        return len(found)

    def _opened(self, name: str) -> tuple[Any, int]:
        """Return Chroma's collection object, and the size of its largest request.

        Raises:
            BrokenCollectionError: When the collection is missing or does not work.
        """
        with self._opening:
            if self._folder is not None and not self._folder.has(name):
                self._close_client(name)
                fault = f"Collection {name} of {self.where} does not exist"
                raise BrokenCollectionError(f"{fault}. It is rebuilt from the store.")
            client = self.connect(name)
            if name not in self._collections:
                # None, so that no embedding function of a stored configuration is loaded.
                found = self._ask(lambda: client.get_collection(name, embedding_function=None))
                self._ask(found.count)
                size = min(_BATCH_SIZE, int(self._ask(client.get_max_batch_size)))
                self._collections[name] = found, size
            return self._collections[name]

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Mark an embedded collection as being written to, until it is whole again."""
        folder = self._folder
        if folder is None:
            yield
            return
        self._ask(lambda: folder.begin_writing(name))
        try:
            yield
        finally:
            with suppress(RecallError):
                # Counting brings the graph up to date, so that no write is in progress.
                self.count(name)
                self._ask(lambda: folder.end_writing(name))

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            if self._timeout_s is not None:
                # Chroma's HTTP client has no timeout, and no setting for one.
                call = partial(self._calls.run, call, self._timeout_s)
            return ask_place(self.where, call)
        except RecallError as error:
            if isinstance(error.__cause__, TimeoutError):
                # The next request creates a new client, which checks the server first.
                self._clients, self._collections = {}, {}
            raise

    def close(self) -> None:
        """Close the clients, unless the application made them, and unlock the folder."""
        with self._opening:
            for name in list(self._clients):
                self._close_client(name)
            self._collections = {}
            if self._folder is not None:
                self._folder.unlock()

    def _close_client(self, name: str) -> None:
        client = self._clients.pop(name, None)
        self._collections.pop(name, None)
        if client is not None:
            self._ask(client.close)


def _check_answers(
    host: str, port: int, *, ssl: bool, headers: Mapping[str, str], timeout_s: float | None
) -> None:
    """Check that a server answers: Chroma's client has no timeout."""
    import httpx  # noqa: PLC0415  comes with chromadb

    address = host if "://" in host else f"{'https' if ssl else 'http'}://{host}:{port}"
    httpx.get(f"{address}/api/v2/heartbeat", headers=dict(headers), timeout=timeout_s)


def _imported() -> Any:
    try:
        import chromadb.config  # noqa: PLC0415  # takes a second, and may be missing or broken
    except Exception as error:  # with an old SQLite it raises RuntimeError
        raise RecallError(
            f"chromadb cannot be imported ({type(error).__name__}: {error}). Dense recall needs "
            f"it: pip install 'langchain-tokenmem[chroma]'. Everything else works without."
        ) from error
    return chromadb


class _ChromaDefault(Embeddings):
    """Chroma's own model (`"chroma-default"`)."""

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
