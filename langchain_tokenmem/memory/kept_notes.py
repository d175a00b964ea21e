"""Kept notes for a turn: those that match the newest question, in its memory block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import TimedCalls
from langchain_tokenmem.core.messages import role_of, text_of, with_ids
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.memory.recalled_blocks import ConversationScope
from langchain_tokenmem.notes.rendering import KeptNotes, kept_notes, standing_notes
from langchain_tokenmem.state import Block, MemoryState

if TYPE_CHECKING:
    from langchain_tokenmem.notes.notebook import Notebook

_TURNS_BEFORE = 2
_LONGEST_TEXT = 1_000
"""Characters of an earlier message that notes are searched for, from its beginning."""


def notes_for_question(
    notebook: Notebook,
    messages: Sequence[BaseMessage],
    state: MemoryState,
    conversation: ConversationScope,
    most: int,
    count_text: Callable[[str], int],
    warn: Callable[[str], None],
    calls: TimedCalls,
) -> KeptNotes | None:
    """Return the notes that match the newest question or the two turns before it; None for none.

    What a live block shows already is not shown again; what was removed or changed since it was
    shown is told to be void. Where the store fails the call goes on without.

    Args:
        notebook: Has the notes.
        messages: The conversation; the question stands last.
        state: Has the live blocks.
        conversation: User and session of the call.
        most: Tokens that the notes may have.
        count_text: Counts the tokens of a text.
        warn: Takes what the log should say once.
        calls: Limits how long the store is waited for.
    """
    there = {message.id or "" for message in with_ids(messages)}
    blocks = [block for key, block in state["blocks"].items() if key in there]
    shown = standing_notes(blocks)
    try:
        asked = notebook.scoped(conversation.user_id, conversation.session_id or None)
        found, ids = calls.run(lambda: asked.relevant([*_questions(messages)]))
        levels = set(asked.scope.levels())
    except ScopeError:  # neither a user nor a session: there are no notes to show
        return None
    except Exception as error:  # noqa: BLE001  an application's own store may raise
        warn(f"Session {conversation.session_id!r}: no notes are shown, {error}")
        return None
    gone = {name for name, level in shown.items() if level in levels} - ids
    fresh = [note for note in found if note.id not in shown]
    return kept_notes(fresh, most, count_text, void=sorted(gone))


def _questions(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Yield the texts that notes are searched for: the newest one first, in full."""
    turns = 0
    for place, message in enumerate(reversed(messages)):
        role = role_of(message)
        if role in {"human", "ai"}:
            text = text_of(message)
            yield text if place == 0 else text[:_LONGEST_TEXT]
        turns += place > 0 and role == "human"
        if turns == _TURNS_BEFORE:
            return


def with_notes_in_front(block: Block, notes: KeptNotes | None) -> Block:
    """Return a memory block with notes in front of the messages that are recalled."""
    if notes is None or not notes.text:
        return block
    added: Block = {
        **block,
        "text": "\n\n".join(filter(None, (notes.text, block["text"]))),
        "kept": notes.text,
        "kept_ids": dict(notes.levels),
    }
    return {**added, "void": list(notes.void)} if notes.void else added
