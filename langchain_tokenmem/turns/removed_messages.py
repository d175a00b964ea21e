"""Messages that were removed from a graph's thread, where the application hides what it removes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.covered import covered_end
from langchain_tokenmem.core.messages import spoken_messages, with_ids
from langchain_tokenmem.memory.current_words import (
    CheckedMessages,
    noted_ids,
    with_current_words,
)
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.storage.transcripts import TranscriptRow


@dataclass(frozen=True)
class RemovedMessages:
    """Takes the words of removed messages out of the memory's state.

    Attributes:
        transcript: Reads every row of the thread's transcript, hidden ones included.
        others: Messages of the thread that this call may not have been given: they stand.
    """

    transcript: Callable[[], Sequence[TranscriptRow]]
    others: Sequence[BaseMessage] = field(default=())

    def without(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState,
        count_text: Callable[[str], int],
        checked: CheckedMessages | None = None,
    ) -> MemoryState:
        """Return the state without words of messages that its thread has no more.

        Messages that `CompactNode(prune=True)` has moved into the transcript are not removed. The
        transcript is read only where there are such messages, and others are missing.
        """
        there = self._with_others(messages)
        if state["pruned"]:
            if not _lacks_messages(state, there):
                return state
            there = _with_pruned(there, state, self.transcript())
        return with_current_words(there, state, count_text, checked, hides=True)

    def _with_others(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the thread's messages: those of the call, and those kept from it only."""
        given = {message.id: message for message in messages}
        if given.keys() >= {message.id for message in self.others}:
            return with_ids(messages)
        held = {message.id for message in self.others}
        whole = [given.get(message.id, message) for message in self.others]
        return with_ids([*whole, *(m for m in messages if m.id not in held)])


def _lacks_messages(state: MemoryState, there: Sequence[BaseMessage]) -> bool:
    """Return whether a message is missing that the state has words of, beyond pruned ones."""
    if noted_ids(state) - {message.id for message in there}:
        return True
    summary = state["summary"]
    covered = spoken_messages(there[: covered_end(there, summary)]) if summary else []
    pruned = sum(last - first + 1 for first, last in state["pruned"])
    return summary is not None and len(covered) + pruned < summary["covered"]


def _with_pruned(
    messages: Sequence[BaseMessage], state: MemoryState, rows: Sequence[TranscriptRow]
) -> list[BaseMessage]:
    """Return the messages with those that were moved into the transcript, in their order."""
    said = {row.seq: row for row in rows}  # the newest words of each stand last
    seqs = {row.message.id: seq for seq, row in said.items()}
    held = {message.id for message in messages}
    moved = [
        said[seq].message
        for first, last in state["pruned"]
        for seq in range(first, last + 1)
        if seq in said and said[seq].message.id not in held
    ]
    end = max(said, default=0) + 1
    return sorted([*moved, *messages], key=lambda message: seqs.get(message.id, end))
