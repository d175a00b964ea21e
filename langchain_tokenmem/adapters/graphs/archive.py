"""Covered messages on their way out of a graph's state: kept first, removed afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_tokenmem.core.messages import digest_of, is_pinned, role_of
from langchain_tokenmem.core.thread_names import thread_session
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.storage.transcript_store import TranscriptStore


@dataclass(frozen=True)
class Archive:
    """A session in a transcript store.

    Attributes:
        store: Keeps the transcript.
        session_id: The thread's id, and the sub-graph's name where it is one.
        user_id: Who owns it.
    """

    store: TranscriptStore
    session_id: str
    user_id: str | None = None


def config_scope(config: RunnableConfig | None) -> tuple[str, str | None]:
    """Return session and user of a run: the thread, with the namespace of a sub-graph.

    Ids of tasks are left out of the namespace, so that each run of a sub-graph finds its own.

    Raises:
        ScopeError: When the run has no thread.
    """
    configurable = ensure_config(config).get("configurable") or {}
    thread = configurable.get("thread_id")
    if not isinstance(thread, str) or not thread:
        raise ScopeError(
            "Messages are kept by thread: name it, "
            'graph.invoke(input, {"configurable": {"thread_id": "..."}}), as a text.'
        )
    # The last part names the node itself. A checkpointer on the same store keeps the messages of
    # the thread in this session, too.
    parents = (configurable.get("checkpoint_ns") or "").split("|")[:-1]
    return thread_session(thread, "|".join(parents)), configurable.get("user_id")


@dataclass(frozen=True)
class Leaving:
    """What may leave a graph's state.

    Attributes:
        removals: Orders to remove the messages, one by one.
        numbers: Their numbers in the transcript.
    """

    removals: tuple[RemoveMessage, ...] = ()
    numbers: tuple[int, ...] = ()


def archived(archive: Archive, messages: Sequence[BaseMessage], state: MemoryState) -> Leaving:
    """Keep everything up to the summary's pointer, and return what may leave the graph's state.

    That is what was read back as it was written, and neither a system message nor a pinned one
    nor one that the view shows; the pointer's own message stays as well, because the pointer is
    found by it.
    """
    summary = state["summary"]
    if summary is None:
        return Leaving()
    ids = [message.id for message in messages]
    if summary["covers_to"] not in ids:
        return Leaving()
    covered = messages[: ids.index(summary["covers_to"])]
    spoken = [message for message in covered if role_of(message) != "system"]
    stays = {*state["kept"], None}
    leaving = [m for m in spoken if m.id not in stays and not is_pinned(m)]
    if not leaving:
        return Leaving()
    archive.store.add(archive.session_id, spoken, user_id=archive.user_id)
    rows = archive.store.named(archive.session_id, [message.id or "" for message in leaving])
    said = {message.id: digest_of(message) for message in leaving}
    kept = [row for row in rows if digest_of(row.message) == said.get(row.message.id)]
    return Leaving(
        tuple(RemoveMessage(id=row.message.id or "") for row in kept),
        tuple(row.seq for row in kept),
    )
