"""Edits of messages that the running summary covers: entries that tell words of before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.covered import covered_end
from langchain_tokenmem.core.messages import (
    MARKS,
    marked,
    marks_of,
    role_of,
    same_objects,
    spoken_messages,
    with_ids,
)
from langchain_tokenmem.core.numbers import digest_of_numbers, messages_of_entries
from langchain_tokenmem.state import RunningSummary


class CheckedMessages:
    """Covered messages of one conversation that were compared with its summary before.

    The same objects are not compared again, so an edit inside of such an object is seen by the next
    process, or when a checkpoint is read again.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[Sequence[BaseMessage], Sequence[str]] = ((), ())

    def edited_entries(
        self, summary: RunningSummary, messages: Sequence[BaseMessage]
    ) -> dict[int, Mapping[int, BaseMessage]]:
        """Return the messages of the entries that tell other words than these, by entry's place.

        An entry is compared where all of its messages are there.

        Args:
            summary: The running summary.
            messages: The conversation, oldest first.

        Returns:
            For each of these entries its messages by number.
        """
        named = with_ids(messages)
        covered = named[: covered_end(named, summary)]
        entries = [entry["id"] for entry in summary["entries"]]
        before, known = self._known
        if known == entries and same_objects(before, covered):
            return {}
        own = messages_of_entries(summary, spoken_messages(covered))
        edited: dict[int, Mapping[int, BaseMessage]] = {
            place: numbered
            for place, (entry, numbered) in enumerate(zip(summary["entries"], own, strict=True))
            if numbered and "words" in entry and _are_edited(entry["words"], numbered)
        }
        if not edited:
            self._known = covered, entries
        return edited


def _are_edited(words: str, numbered: Mapping[int, BaseMessage]) -> bool:
    now = digest_of_words(numbered.items())
    return now is not None and now != words


def digest_of_words(numbered: Iterable[tuple[int, BaseMessage]]) -> str | None:
    """Return a digest of messages' words and numbers; None where they cannot be compared."""
    try:
        return digest_of_numbers((_words_of(message), number) for number, message in numbered)
    except (TypeError, ValueError, RecursionError):
        return None


def with_said(
    messages: Sequence[BaseMessage], originals: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return messages of a request; one that was cleared for it carries what it said.

    LangChain's ContextEditingMiddleware clears old tool results, and their calls, in the request.

    Args:
        messages: Messages of the request.
        originals: Those of the conversation, as they were said.
    """
    if not any(map(_is_cleared, messages)):
        return [*messages]
    known = {message.id: message for message in originals if message.id}
    return [
        marked(message, said=_said_by(known[message.id]))
        if _is_cleared(message) and message.id in known
        else message
        for message in messages
    ]


def as_said(message: BaseMessage) -> BaseMessage:
    """Return a message as it was said, where it carries that; the same one else."""
    said = marks_of(message).get("said")
    return message if said is None else without_said(message).model_copy(update=said)


def without_said(message: BaseMessage) -> BaseMessage:
    """Return a message without what it said before it was cleared."""
    marks = marks_of(message)
    if "said" not in marks:
        return message
    left = {name: value for name, value in marks.items() if name != "said"}
    metadata = {**message.response_metadata, MARKS: left}
    if not left:
        del metadata[MARKS]
    return message.model_copy(update={"response_metadata": metadata})


def _said_by(message: BaseMessage) -> dict[str, Any]:
    said = {"content": message.content, "response_metadata": message.response_metadata}
    return said | ({"tool_calls": message.tool_calls} if isinstance(message, AIMessage) else {})


def _is_cleared(message: BaseMessage) -> bool:
    metadata = message.response_metadata  # a node may have set it to anything
    return isinstance(metadata, dict) and "context_editing" in metadata


def _words_of(message: BaseMessage) -> str:
    """Return a message's words as JSON.

    Raises:
        TypeError: When its content is no plain data, which may be stored in another form.
        ValueError: When its content refers to itself, or is cleared for one request and not known.
    """
    message = as_said(message)
    if _is_cleared(message):
        raise ValueError(message.id)
    said = [role_of(message), message.content, getattr(message, "tool_calls", None)]
    return json.dumps(said, sort_keys=True)
