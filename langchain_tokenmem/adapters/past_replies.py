"""A reply of the model in the checkpoints of a thread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import StateSnapshot

from langchain_tokenmem.errors import ConfigurationError


@dataclass(frozen=True)
class PastReply:
    """A reply of the model, as the checkpoints hold it.

    Attributes:
        number: Its number among the replies of the thread, from 1.
        found: The first checkpoint with it.
        older: The checkpoints before that, the newest first; read as they are asked for.
        messages: The conversation as the call had it.
    """

    number: int
    found: StateSnapshot
    older: Iterable[StateSnapshot]
    messages: list[BaseMessage]


def past_reply(
    history: Iterable[StateSnapshot], call: int | None, key: str = "messages"
) -> PastReply:
    """Return a reply from the history of a thread.

    Args:
        history: The checkpoints of the thread, the newest first.
        call: Number of the reply in the thread, from 1; None for the newest.
        key: State key of the messages.

    Raises:
        ConfigurationError: When the thread has no such reply, or no checkpoint right after it.
    """
    snapshots = iter(history)
    newest = next(snapshots, None)
    replies = _replies(newest, key) if newest else []
    number = len(replies) if call is None else call
    if newest is None or not 1 <= number <= len(replies):
        raise ConfigurationError(
            f"The thread has {len(replies)} replies of the model; call={number} is none of them."
        )
    reply, found, older = replies[number - 1], newest, []
    for snapshot in snapshots:
        if reply not in _replies(snapshot, key):
            older = [snapshot]
            break
        found = snapshot
    if _replies(found, key)[-1] != reply:
        raise ConfigurationError(
            f"No checkpoint was kept right after call {number}: with durability='exit' there is "
            f"one for each run. Explain the last call of the run, or use durability='async'."
        )
    messages = found.values[key]
    place = next(i for i, message in enumerate(messages) if message.id == reply)
    return PastReply(number, found, chain(older, snapshots), messages[:place])


def _replies(snapshot: StateSnapshot, key: str) -> list[str | None]:
    messages = snapshot.values.get(key, [])
    return [message.id for message in messages if isinstance(message, AIMessage)]
