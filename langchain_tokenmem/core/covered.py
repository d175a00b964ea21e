"""Messages that the running summary covers: where they end, and whether they have changed since.

An entry identifies its messages by a digest of their ids, and their words by another digest. A
message that LangChain's ContextEditingMiddleware cleared for a request carries its original
content: the memory reads that, and does not treat it as an edit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypedDict, cast

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.messages import (
    is_spoken,
    marked,
    marks_of,
    reference,
    role_of,
    same_objects,
    unmarked,
)
from langchain_tokenmem.core.working_notes.mode_profiles import new_modes_state
from langchain_tokenmem.state import MemoryState, ModesState, RunningSummary, SummaryEntry

POINTER_IS_LOST = (
    "The messages that the running summary ends with are no longer here: all messages are shown."
)


def newest_entry(summary: RunningSummary | None) -> str:
    """Return the id of a summary's newest entry; empty without a summary."""
    return summary["entries"][-1]["id"] if summary else ""


def covered_end(messages: Sequence[BaseMessage], summary: RunningSummary | None) -> int:
    """Return the index after the last message that a summary covers; 0 without one, or if unknown.

    If the pointer's message was removed, the newest existing one before it is used.
    """
    for key in (summary["covers_to"], *summary["entries"][-1]["last_ids"]) if summary else ():
        for index in range(len(messages) - 1, -1, -1):
            if messages[index].id == key:
                return index + 1
    return 0


_OF_THE_CONVERSATION = ("turns", "times", "reports", "change", "sent")
"""Optional fields of a state that are about its messages."""


def after_clearing(messages: Sequence[BaseMessage], state: MemoryState) -> MemoryState:
    """Return a state without what was derived from messages that were removed all at once.

    That is so if no covered message is left, none of those last read for notes, and no model has
    answered since: a user has cleared the chat. Moving messages into an archive, and trimming that
    keeps more than a new question, leave some of them behind; then summary and notes stay.

    Args:
        messages: The conversation in a graph's state, oldest first.
        state: The state; returned unchanged if the conversation continues.
    """
    summary, read_to = state["summary"], state["modes"]["read_to"] if "modes" in state else []
    is_new = summary is None and not read_to
    if is_new or state["pruned"] or any(role_of(m) == "ai" for m in messages):
        return state
    there = {message.id for message in messages if is_spoken(message)}
    if covered_end(messages, summary) or not there.isdisjoint([*state["kept"], *read_to]):
        return state
    rest: Any = {key: value for key, value in state.items() if key not in _OF_THE_CONVERSATION}
    if "modes" in state:
        rest["modes"] = _unread(state["modes"])
    rest |= {"summary": None, "kept": [], "cuts": {}, "blocks": {}}
    return cast("MemoryState", rest)


def with_true_count(
    summary: RunningSummary, looked_at: Sequence[BaseMessage], end: int, state: MemoryState
) -> RunningSummary:
    """Return a summary whose count does not exceed the existing messages; unchanged if correct.

    Of the covered messages, a store returns only the kept ones and the last one: then nothing is
    recounted.

    Args:
        summary: The running summary.
        looked_at: Covered messages that are kept, and system messages.
        end: How many of the messages are covered; 0 if the pointer is lost.
        state: Records what was removed from a graph's state and is kept in an archive.
    """
    if end and end - len(looked_at) <= 1:
        return summary
    there = end - sum(not is_spoken(message) for message in looked_at)
    there += sum(last - first + 1 for first, last in state["pruned"])
    return summary if summary["covered"] <= there else {**summary, "covered": there}


def spans_of(
    summary: RunningSummary, messages: Sequence[BaseMessage]
) -> list[Sequence[BaseMessage]]:
    """Return the messages of each entry, as far as they are given.

    An entry ends after the newest of its last messages that is given, and begins where the
    previous one ends.

    Args:
        summary: The running summary.
        messages: The conversation in order, without system messages, each with an id.
    """
    places = {message.id or "": place for place, message in enumerate(messages)}
    spans: list[Sequence[BaseMessage]] = []
    start = 0
    for entry in summary["entries"]:
        end = next((places[key] + 1 for key in entry["last_ids"] if key in places), start)
        spans.append(messages[start : max(start, end)])
        start = max(start, end)
    return spans


def is_whole(entry: SummaryEntry, messages: Sequence[BaseMessage]) -> bool:
    """Return whether these are exactly the messages that an entry was written about."""
    digest = digest_of_texts(message.id or "" for message in messages)
    return len(messages) == entry["covered"] and entry.get("digest") == digest


_LAST_IDS = 8
"""Number of ids for finding the end of an entry if messages were removed."""


class EntryPlace(TypedDict):
    """The fields of a `SummaryEntry` that say which messages it covers."""

    first: str
    covered: int
    last_ids: list[str]
    digest: str


def entry_place(ids: Sequence[str]) -> EntryPlace:
    """Return the place of an entry that covers the messages with some ids."""
    return {
        "first": reference(ids[0] if ids else ""),
        "covered": len(ids),
        "last_ids": [*ids[: -_LAST_IDS - 1 : -1]],
        "digest": digest_of_texts(ids),
    }


_DIGITS = 16


def digest_of_texts(texts: Iterable[str]) -> str:
    """Return an order-independent digest of texts; that of two lists is the sum of theirs."""
    data = (text.encode("utf-8", "surrogatepass") for text in texts)
    digests = (hashlib.blake2b(one, digest_size=_DIGITS // 2).digest() for one in data)
    return _hex(sum(map(int.from_bytes, digests)))


def sum_of_digests(digests: Sequence[str | None]) -> str | None:
    """Return the digest of several lists together, or None if one of them has none."""
    known = [int(digest, 16) for digest in digests if digest]
    return _hex(sum(known)) if len(known) == len(digests) else None


def _hex(total: int) -> str:
    return f"{total % 16**_DIGITS:0{_DIGITS}x}"


class _Original(dict[str, Any]):
    """Content of a message before it was cleared; our own class, so no input can contain one."""


def digest_of_words(messages: Iterable[BaseMessage]) -> str | None:
    """Return a digest of the words of messages, or None if they cannot be compared."""
    try:
        return digest_of_texts(map(_words_of, messages))
    except (TypeError, ValueError, RecursionError):
        return None


def with_originals(
    messages: Sequence[BaseMessage], originals: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return messages of a request; one that was cleared for it carries its original content.

    Args:
        messages: Messages of the request.
        originals: The original messages of the conversation.
    """
    if same_objects(messages, originals) or not any(map(is_cleared, messages)):
        return [*messages]
    known = {message.id: message for message in originals if message.id}
    return [
        marked(message, original=_Original(_content_of(known[message.id])))
        if is_cleared(message) and message.id in known
        else message
        for message in messages
    ]


def original_of(message: BaseMessage) -> BaseMessage:
    """Return a message with its original content, if it carries that; otherwise unchanged."""
    original = marks_of(message).get("original")
    if not isinstance(original, _Original):
        return message
    return without_original(message).model_copy(update=original)


def without_original(message: BaseMessage) -> BaseMessage:
    """Return a message without its original content from before it was cleared."""
    return unmarked(message, ["original"])


def _content_of(message: BaseMessage) -> dict[str, Any]:
    content = {"content": message.content, "response_metadata": message.response_metadata}
    return content | ({"tool_calls": message.tool_calls} if isinstance(message, AIMessage) else {})


def is_cleared(message: BaseMessage) -> bool:
    """Return whether the content of a message was cleared for this request only."""
    metadata = message.response_metadata  # a node may have set it to anything
    return isinstance(metadata, dict) and "context_editing" in metadata


def _words_of(message: BaseMessage) -> str:
    """Return a message's words as JSON.

    Raises:
        TypeError: When its content is not plain data, which may be stored in another form.
        ValueError: When its content refers to itself, or was cleared for a request and is unknown.
    """
    message = original_of(message)
    if is_cleared(message):
        raise ValueError(message.id)
    words = [role_of(message), message.content, getattr(message, "tool_calls", None)]
    return json.dumps(words, sort_keys=True)


def without_words_of(
    changed: Collection[str], state: MemoryState, *, is_log_new: bool = False
) -> MemoryState:
    """Return the state without blocks, notes and turn memories that quote some messages.

    Turn memories and notes are derived again at the next call.

    Args:
        changed: Ids of messages that were edited or hidden.
        state: The memory's state.
        is_log_new: Whether entries of the running summary were rewritten: then the notes derived
            from the messages that they cover are removed.
    """
    modes = state.get("modes")
    is_noted = modes is not None and not modes.get("words", {}).keys().isdisjoint(changed)
    blocks = {
        key: block
        for key, block in state["blocks"].items()
        if {*block["ids"]}.isdisjoint(changed)
        and not (modes is not None and (is_noted or is_log_new) and "notes" in block)
    }
    new: MemoryState = {**state, "blocks": blocks}
    new.pop("turns", None)
    if modes is not None and (is_noted or is_log_new):
        new["modes"] = _unread(modes)
    return new


def _unread(modes: ModesState) -> ModesState:
    """Return the notes of a session of which nothing was read yet; keep its mode."""
    fresh = new_modes_state(modes["mode"])
    return {**fresh, "chosen": modes["chosen"]} if "chosen" in modes else fresh
