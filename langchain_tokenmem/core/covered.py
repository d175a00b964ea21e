"""Messages that the running summary covers: where they end, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import is_spoken
from langchain_tokenmem.state import MemoryState, RunningSummary

POINTER_IS_LOST = (
    "The messages that the running summary ends with are no longer here: all messages are shown."
)


def covered_end(messages: Sequence[BaseMessage], summary: RunningSummary) -> int:
    """Return the index behind the last message that a summary covers; 0 where it is not known.

    Where the pointer's message was removed, the newest one before it that is still there counts.
    """
    for key in (summary["covers_to"], *summary["entries"][-1]["last_ids"]):
        for index in range(len(messages) - 1, -1, -1):
            if messages[index].id == key:
                return index + 1
    return 0


def with_true_count(
    summary: RunningSummary, looked_at: Sequence[BaseMessage], end: int, state: MemoryState
) -> RunningSummary:
    """Return a summary that covers no more messages than there are; the same where it does not.

    A store gives of what is covered only the kept messages and the last one: there nothing is
    counted again.

    Args:
        summary: The running summary.
        looked_at: Covered messages that are kept, and system messages.
        end: How many of the messages are covered; 0 where the pointer is lost.
        state: Says what was removed from a graph's state, and is kept in an archive.
    """
    if end and end - len(looked_at) <= 1:
        return summary
    there = end - sum(not is_spoken(message) for message in looked_at)
    there += sum(last - first + 1 for first, last in state["pruned"])
    return summary if summary["covered"] <= there else {**summary, "covered": there}
