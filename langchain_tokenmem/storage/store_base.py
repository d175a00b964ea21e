"""What every part of a `TranscriptStore` needs: its database, its users, its index."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from os import PathLike

from sqlalchemy import Connection, Engine

from langchain_tokenmem.background import Closeable, in_thread
from langchain_tokenmem.core.thread_names import thread_of
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.codec import Codec, Serializer
from langchain_tokenmem.storage.database import Database
from langchain_tokenmem.storage.lifecycle import AutomaticExpiry, ExpiryPolicy
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.serializer import StateSerializer
from langchain_tokenmem.storage.sessions import UserRule, checked_id

_DEFAULT_URL = "sqlite:///tokenmem.db"


class StoreBase(Closeable):
    """The parts of a store: for its arguments see `TranscriptStore`."""

    def __init__(
        self,
        url: str | PathLike[str] = _DEFAULT_URL,
        *,
        pool_size: int = 8,
        engine: Engine | None = None,
        inactive_for: timedelta | None = None,
        expire_every: timedelta | None = None,
        require_user: bool = False,
        shared: bool = False,
    ) -> None:
        self.policy = ExpiryPolicy(inactive_for=inactive_for, expire_every=expire_every)
        if engine is not None and url != _DEFAULT_URL:
            raise ConfigurationError("Name the database by url or by engine=, not by both.")
        if require_user and shared:
            raise ConfigurationError("require_user=True and shared=True exclude each other.")
        self.database = Database(url, pool_size=pool_size, engine=engine)
        self._users = UserRule(require_user=require_user, shared=shared)
        self.index = SearchIndex(self.database, self._users)
        self._expiry = AutomaticExpiry(self.policy, self.database, self.index)

    def __repr__(self) -> str:
        return f"TranscriptStore({self.database.url.render_as_string(hide_password=True)!r})"

    def close(self) -> None:
        """Close every connection."""
        self._expiry.stop()
        self.database.close()

    aclose = in_thread(close)

    def _reading(self, session_id: str) -> AbstractContextManager[Connection]:
        return self.database.reading(f"Session {session_id!r}")

    def _check_user(self, session_id: str, user_id: str | None) -> None:
        with self._reading(session_id) as connection:
            self._users.find(connection, session_id, user_id)

    def _writing(self, session_id: str) -> AbstractContextManager[Connection]:
        thread = thread_of(checked_id(session_id))
        return self.database.writing(f"Session {session_id!r}", thread)


def codec_of(serde: Serializer | None) -> Codec:
    """Return what reads and writes values, with a saver's own serializer or the package's."""
    return Codec(serde or StateSerializer())
