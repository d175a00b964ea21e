"""Messages that were removed from a graph's thread, where the application hides what it removes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.edited_words import noted_words
from langchain_tokenmem.core.messages import spoken_messages, with_ids
from langchain_tokenmem.core.numbers import covered_end
from langchain_tokenmem.core.turns import no_turns
from langchain_tokenmem.memory.corrected_summary import without_noted_words
from langchain_tokenmem.memory.hidden_words import lacks_messages, without_removed_words
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
    ) -> MemoryState:
        """Return the state without words of messages that its thread has no more.

        Messages that `CompactNode(prune=True)` has moved into the transcript are not removed. The
        transcript is read only where a covered message is missing beyond these.
        """
        there = self._with_others(messages)
        noted = _noted_ids(state) - {message.id for message in there}
        if not noted and not _lacks_covered(state, there):
            return state
        said = {row.seq: row for row in self.transcript()}  # the newest words of each stand last
        there = _with_pruned(there, state, said)
        state = without_removed_words(
            there, state, count_text, [row.message for row in said.values()]
        )
        gone = noted - {message.id for message in there}
        return without_noted_words(there, state, gone) if gone else state

    def _with_others(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the thread's messages: those of the call, and those kept from it only."""
        given = {message.id: message for message in messages}
        if given.keys() >= {message.id for message in self.others}:
            return with_ids(messages)
        held = {message.id for message in self.others}
        whole = [given.get(message.id, message) for message in self.others]
        return with_ids([*whole, *(m for m in messages if m.id not in held)])


def _noted_ids(state: MemoryState) -> set[str]:
    """Return the ids of messages that notes, blocks or turn memories have words of."""
    turns = state.get("turns", no_turns())
    results = {key for keys in turns["calls"].values() for key in keys}
    return results | {key for key, _ in noted_words(state)}


def _lacks_covered(state: MemoryState, there: Sequence[BaseMessage]) -> bool:
    """Return whether a covered message is missing, beyond those that were pruned."""
    summary = state["summary"]
    if summary is None:
        return False
    if not state["pruned"]:
        return lacks_messages(summary, there)
    covered = spoken_messages(there[: covered_end(there, summary)])
    pruned = sum(last - first + 1 for first, last in state["pruned"])
    return len(covered) + pruned < summary["covered"]


def _with_pruned(
    messages: Sequence[BaseMessage], state: MemoryState, said: dict[int, TranscriptRow]
) -> list[BaseMessage]:
    """Return the messages with those that were moved into the transcript, in their order."""
    if not state["pruned"]:
        return list(messages)
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
