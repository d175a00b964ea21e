"""`JsonStore`: a LangGraph store in a folder of readable JSON files."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from langchain_tokenmem.background import (
    BackgroundRunner,
    Closeable,
    ForkSafeLock,
    in_thread,
    wait_at_exit,
)
from langchain_tokenmem.core.stored_items import (
    ItemId,
    Namespace,
    StoredItem,
    starts_with,
)
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.notes.item_store import ItemStore
from langchain_tokenmem.notes.json_folder import JsonFolder, with_changes

logger = logging.getLogger(__name__)

_FLUSH = "flush"


class JsonStore(ItemStore, Closeable):
    """A LangGraph `BaseStore` in a folder of readable JSON files, fit for git.

    There is one file per namespace, up to its fifth label: for notes one per project, per session,
    and for the global notes of a user. Puts are written together in the background; reads see
    them at once. `flush`, `close` and the end of the process write the rest; a killed process
    loses the puts of the last `max_delay_s`, and never leaves a partial file. Several processes may
    use one folder on a local disk. A damaged file is renamed and logged. There are no vectors: a
    search returns items by filter, newest first.

    Args:
        folder: The folder, created by the first write.
        debounce_s: Seconds without another put after which puts are written.
        max_delay_s: Maximum seconds that a put waits to be written.

    Raises:
        ConfigurationError: When a time is below 0.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, JsonStore(folder) as store:
        ...     store.put(("users", "ann"), "tea", {"likes": "green tea"})
        ...     store.get(("users", "ann"), "tea").value
        {'likes': 'green tea'}
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        debounce_s: float = 0.5,
        max_delay_s: float = 5,
    ) -> None:
        super().__init__()
        if debounce_s < 0 or max_delay_s < 0:
            raise ConfigurationError(
                f"debounce_s is {debounce_s} and max_delay_s {max_delay_s}; both are seconds, "
                f"0 or more, such as JsonStore(folder, debounce_s=0.5, max_delay_s=5)."
            )
        self._folder = JsonFolder(Path(folder))
        self._debounce_s, self._max_delay_s = debounce_s, max_delay_s
        self._lock, self._writes = ForkSafeLock(), ForkSafeLock()
        self._forget_changes()
        self._runner = BackgroundRunner("tokenmem-json")
        wait_at_exit(self._flush_or_log)

    def __repr__(self) -> str:
        return f"JsonStore({str(self._folder.path)!r})"

    def _forget_changes(self) -> None:
        self._pending: dict[ItemId, StoredItem | None] = {}
        self._first = self._last = 0.0
        self._process = os.getpid()

    def _find(self, item_id: ItemId) -> StoredItem | None:
        changes, stored = self._changes(), self._folder.read(self._folder.file_of(item_id[0]))
        return with_changes(stored, changes).get(item_id)

    def _items_under(self, prefix: Namespace, most: int | None) -> list[StoredItem]:
        changes = {k: item for k, item in self._changes().items() if starts_with(k[0], prefix)}
        items = with_changes(self._folder.items_under(prefix), changes)
        by_id = sorted(items.values(), key=lambda item: item.item_id)
        return sorted(by_id, key=lambda item: item.updated_at, reverse=True)[:most]

    def _namespaces_under(self, prefix: Namespace) -> set[Namespace]:
        return {item.namespace for item in self._items_under(prefix, None)}

    def _changes(self) -> dict[ItemId, StoredItem | None]:
        """Return pending puts; in the child of a fork none, because the parent writes them."""
        with self._lock:
            if self._process != os.getpid():
                self._forget_changes()
            return dict(self._pending)

    def _put(self, values: Mapping[ItemId, str | None]) -> None:
        self._changes()
        now = datetime.now(UTC)
        with self._lock:
            self._last = time.monotonic()
            if not self._pending:
                self._first = self._last
            for item_id, value in values.items():
                item = None if value is None else StoredItem(*item_id, value, now, now)
                self._pending.pop(item_id, None)
                self._pending[item_id] = item
        self._runner.start(_FLUSH, self._flush_when_due, again=True)

    def _flush_when_due(self) -> None:
        while self._changes():
            due = min(self._last + self._debounce_s, self._first + self._max_delay_s)
            left = due - time.monotonic()
            if left <= 0:
                self._flush_or_log()
                return
            time.sleep(left)

    def _flush_or_log(self) -> None:
        try:
            self.flush()
        except StoreError as error:
            logger.error(  # noqa: TRY400  it says all; where it happened is of no use
                "Pending puts were not written; the next put or flush() tries again: %s", error
            )

    def flush(self) -> None:
        """Write all pending puts, and delete what killed processes left unfinished.

        Raises:
            StoreError: When they cannot be written; they are kept, and the next flush tries again.
        """
        with self._writes:
            changes = self._changes()
            if changes or self._folder.has_unfinished():
                self._folder.merge(changes)
            with self._lock:
                self._first = time.monotonic()
                for item_id, change in changes.items():
                    if self._pending.get(item_id, ...) is change:  # not put again meanwhile
                        del self._pending[item_id]

    aflush = in_thread(flush)

    def damaged_texts(self, namespace_prefix: Sequence[str]) -> list[str]:
        """Return the contents of damaged files that may contain items under a prefix."""
        of_prefix, others = self._folder.set_aside(tuple(namespace_prefix))
        return [file.read_text("utf-8", "replace") for file in (*of_prefix, *others)]

    def close(self) -> None:
        """Write all pending puts; the store can be used again.

        Raises:
            StoreError: When it cannot be written.
        """
        self.flush()

    aclose = in_thread(close)

    def _erase(self, prefix: Namespace) -> dict[str, int]:
        gone = [item.item_id for item in self._items_under(prefix, None)]
        with self._lock:
            self._pending |= dict.fromkeys(gone)
        self.flush()
        damaged, left = self._folder.set_aside(prefix)
        for file in damaged:
            file.unlink(missing_ok=True)
        for file in left:
            logger.warning("%s may contain items under %s: check it.", file, prefix)
        return {
            "items": len(gone),
            "files": len({self._folder.file_of(namespace) for namespace, _ in gone}),
            "damaged_files": len(damaged),
            "damaged_files_left": len(left),
        }
