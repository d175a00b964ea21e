"""Archive of covered messages: stored first, then removed from a graph's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage, RemoveMessage

from langchain_tokenmem.core.argument_checks import BeforeStore, as_kept
from langchain_tokenmem.core.messages import digest_of, is_pinned, role_of
from langchain_tokenmem.memory.recalled_blocks import add_to_ranges
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.turns.conversation import TurnResult


@dataclass(frozen=True)
class Archive:
    """A session in a transcript store.

    Attributes:
        store: Keeps the transcript.
        session_id: The thread's id, and the sub-graph's name where it is one.
        user_id: Who owns it.
        before_store: Changes messages before they are stored; None for none.
    """

    store: TranscriptStore
    session_id: str
    user_id: str | None = None
    before_store: BeforeStore | None = None


@dataclass(frozen=True)
class Removals:
    """Messages that may be removed from a graph's state.

    Attributes:
        messages: One `RemoveMessage` for each of them.
        numbers: Their numbers in the transcript.
    """

    messages: tuple[RemoveMessage, ...] = ()
    numbers: tuple[int, ...] = ()


def archive_covered(
    archive: Archive, messages: Sequence[BaseMessage], state: MemoryState
) -> Removals:
    """Keep everything up to the summary's pointer, and return what may leave the graph's state.

    That is what was read back as it was written, and neither a system message nor a pinned one
    nor one that the view shows; the pointer's own message stays as well, because the pointer is
    found by it.
    """
    summary = state["summary"]
    if summary is None:
        return Removals()
    ids = [message.id for message in messages]
    if summary["covers_to"] not in ids:
        return Removals()
    covered = messages[: ids.index(summary["covers_to"])]
    spoken = [message for message in covered if role_of(message) != "system"]
    stays = {*state["kept"], None}
    removable = [m for m in spoken if m.id not in stays and not is_pinned(m)]
    if not removable:
        return Removals()
    stored = as_kept(archive.before_store, spoken)
    archive.store.add(archive.session_id, stored, user_id=archive.user_id)
    rows = archive.store.named(
        archive.session_id,
        [message.id or "" for message in removable],
        user_id=archive.user_id,
    )
    said = {message.id: digest_of(message) for message in stored}
    kept = [row for row in rows if digest_of(row.message) == said.get(row.message.id)]
    return Removals(
        tuple(RemoveMessage(id=row.message.id or "") for row in kept),
        tuple(row.seq for row in kept),
    )


def with_removals(result: TurnResult, removals: Removals) -> TurnResult:
    """Return the outcome of a turn whose state knows what has left the graph's messages."""
    if not removals.numbers:
        return result
    pruned = add_to_ranges(result.state["pruned"], removals.numbers)
    return replace(result, state={**result.state, "pruned": pruned}, changed=True)
