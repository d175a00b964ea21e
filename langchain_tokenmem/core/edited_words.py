"""Words of messages: as they were said, a digest of them, and what goes with edited ones.

LangChain's ContextEditingMiddleware clears old tool results, and their calls, in a request. Such a
message carries what it said: the memory reads that, and it is no edit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.covered import digest_of_texts
from langchain_tokenmem.core.messages import marked, marks_of, role_of, same_objects, unmarked
from langchain_tokenmem.core.working_notes.mode_profiles import new_modes_state
from langchain_tokenmem.notes_state import ModesState
from langchain_tokenmem.state import MemoryState


class _Said(dict[str, Any]):
    """What a message said before it was cleared: of our making, so no input can bring one."""


def digest_of_words(messages: Iterable[BaseMessage]) -> str | None:
    """Return a digest of messages' words; None where they cannot be compared."""
    try:
        return digest_of_texts(map(_words_of, messages))
    except (TypeError, ValueError, RecursionError):
        return None


def with_said(
    messages: Sequence[BaseMessage], originals: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return messages of a request; one that was cleared for it carries what it said.

    Args:
        messages: Messages of the request.
        originals: Those of the conversation, as they were said.
    """
    if same_objects(messages, originals) or not any(map(_is_cleared, messages)):
        return [*messages]
    known = {message.id: message for message in originals if message.id}
    return [
        marked(message, said=_Said(_said_by(known[message.id])))
        if _is_cleared(message) and message.id in known
        else message
        for message in messages
    ]


def as_said(message: BaseMessage) -> BaseMessage:
    """Return a message as it was said, where it carries that; the same one else."""
    said = marks_of(message).get("said")
    return without_said(message).model_copy(update=said) if isinstance(said, _Said) else message


def without_said(message: BaseMessage) -> BaseMessage:
    """Return a message without what it said before it was cleared."""
    return unmarked(message, ["said"])


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


def without_words_of(
    changed: Collection[str], state: MemoryState, *, is_log_new: bool = False
) -> MemoryState:
    """Return the state without blocks, notes and turn memories that have words of some messages.

    Turn memories and notes are read again at the next call.

    Args:
        changed: Ids of messages that were edited or hidden.
        state: The memory's state.
        is_log_new: Whether entries of the running summary were written again: then the notes go
            that were read from what they cover.
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
    """Return the notes of a session of which nothing was read yet; its mode stays."""
    fresh = new_modes_state(modes["mode"])
    return {**fresh, "chosen": modes["chosen"]} if "chosen" in modes else fresh
