"""Working notes of a call: reads new messages and adds notes to the newest question.

Between two folds a request only grows at its end: a block gets its notes when its message is the
newest one, and keeps them. If something is folded, or the mode changes, the
prefix changes anyway: then the newest human message gets the current notes, and the
others lose theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.covered import covered_end, digest_of_words, newest_entry
from langchain_tokenmem.core.inserted_text import without_notes
from langchain_tokenmem.core.messages import groups, reference, role_of, spoken_messages
from langchain_tokenmem.core.repair import source_messages
from langchain_tokenmem.core.size_caps import request_tokens
from langchain_tokenmem.core.working_notes.mode_profiles import (
    CONVERSATION,
    AnnotationSettings,
    ModeProfile,
    new_modes_state,
)
from langchain_tokenmem.core.working_notes.reading import read_groups
from langchain_tokenmem.core.working_notes.sections import RenderedNotes, render_notes
from langchain_tokenmem.events import MemoryEvent
from langchain_tokenmem.state import Block, MemoryState, ModesState


@dataclass(frozen=True)
class WorkingNotes:
    """Working notes for one call.

    Attributes:
        settings: Tools and folders for reading messages.
        mode: The current mode, or None.
        asked: Name of the mode that the call asks for, or None.
        budget: The budget of the call.
        count_text: Counts the tokens of a text.
    """

    settings: AnnotationSettings
    mode: ModeProfile | None
    asked: str | None
    budget: TokenBudget
    count_text: Callable[[str], int]

    @property
    def name(self) -> str:
        """Name of the current mode, or an empty text."""
        return self.mode.name if self.mode else ""

    def added(self, context: ContextParts, state: MemoryState) -> tuple[ContextParts, MemoryState]:
        """Return context and state with new messages read, and with notes if they are due.

        Both are unchanged if nothing is new.
        """
        before = state.get("modes")
        modes = self._read(before or new_modes_state(self.name), context)
        if modes is not before:
            state = {**state, "modes": modes}
        key, entry = context.newest_human, newest_entry(context.summary)
        if key is None:
            return context, state
        block = state["blocks"].get(key)
        is_switched = self._is_switch(before)
        if is_switched or (block and "entry" in block and block["entry"] != entry):
            context, state = self._renewed(context, state, modes, entry)
        elif self.mode and context.last_id == key and not (block and "entry" in block):
            notes = self._notes(modes, context, _live_sections(context, state))
            context = context.with_notes(notes.text, others=True)
            state = _with_block_notes(state, key, notes, entry)
        if self.mode:
            context = replace(context, notes_after_fold=self._notes(modes, context).text)
        return context, state

    def after_fold(
        self, context: ContextParts, before: MemoryState, state: MemoryState
    ) -> MemoryState:
        """Return the state after a compaction, with new notes if something was folded.

        Args:
            context: The context before it, as returned by `added`.
            before: The state before it.
            state: The state after it.
        """
        modes, entry = state.get("modes"), newest_entry(state["summary"])
        if not (self.mode and modes and context.newest_human):
            return state
        if entry == newest_entry(before["summary"]):
            return state
        blocks = {**state["blocks"]}
        if context.newest_human in before["blocks"]:
            blocks[context.newest_human] = before["blocks"][context.newest_human]
        notes = self._notes(modes, context)
        return _with_only_notes({**state, "blocks": blocks}, context, notes, entry)

    def event(self, context: ContextParts, state: MemoryState) -> MemoryEvent | None:
        """Return the event of a switch; None if the conversation stays in its mode.

        Args:
            context: The context of the call.
            state: The state before it.
        """
        before = state.get("modes")
        if not self._is_switch(before) or (before is None and self.asked is None):
            return None
        shown = (message for group in context.tail for message in group.messages)
        if context.summary is None and not any(role_of(message) == "ai" for message in shown):
            return None  # the conversation begins in this mode
        tokens = request_tokens(context)
        return MemoryEvent(kind="mode", reason=self.name, tokens_before=tokens, tokens_after=tokens)

    def _is_switch(self, before: ModesState | None) -> bool:
        return (before["mode"] if before else "") != self.name

    def _read(self, modes: ModesState, context: ContextParts) -> ModesState:
        """Return the sections with what is new, and the current mode."""
        read, mode = modes, self.mode or self.settings.mode or CONVERSATION
        # Without a mode, reading continues if there was one: it may be switched back on.
        if self.mode or self.settings.mode or modes["read_to"]:
            groups = [group.source.messages for group in context.tail]
            read = read_groups(modes, groups, self.settings.turns, mode.limits)
            if read is not modes:
                read = _with_words(read, groups, context)
        if read["mode"] != self.name:
            read = {**read, "mode": self.name}
        if self.asked is not None and read.get("chosen") != self.asked:
            read = {**read, "chosen": self.asked}
        return read

    def _notes(
        self, modes: ModesState, context: ContextParts, live: dict[str, list[str]] | None = None
    ) -> RenderedNotes:
        """Return the notes for the newest human message, without what its own text says."""
        if self.mode is None:
            return RenderedNotes()
        key = context.newest_human or ""
        if key in _tail_ids(context) and key not in context.cuts:
            modes = _without_source(modes, reference(key))
        most = int(self.mode.share * self.budget.notes_tokens)
        return render_notes(modes, self.mode, most, self.count_text, live)

    def _renewed(
        self, context: ContextParts, state: MemoryState, modes: ModesState, entry: str
    ) -> tuple[ContextParts, MemoryState]:
        """Return both with notes in the block of the newest human message only."""
        notes = self._notes(modes, context)
        renewed = context.with_notes(notes.text)
        if notes.text and request_tokens(renewed) > self.budget.limit:
            notes, renewed = RenderedNotes(), context.with_notes("")
        return renewed, _with_only_notes(state, context, notes, entry)


def _tail_ids(context: ContextParts) -> set[str | None]:
    """Return the ids of the messages that are not covered."""
    return {message.id for message in source_messages(context.tail)}


def _with_words(
    modes: ModesState, groups: Sequence[Sequence[BaseMessage]], context: ContextParts
) -> ModesState:
    """Return the sections with digests of their sources, as far as these are shown whole.

    Messages covered by an entry of the log have their digests there.
    """
    sources = {item["source"] for items in modes["sections"].values() for item in items}
    known = modes.get("words", {})
    new = {
        message.id: digest
        for group in groups
        for message in group
        if message.id and message.id not in known
        if reference(message.id) in sources or role_of(message) == "human"
        if (digest := digest_of_words([message]))
    }
    if not new:
        return modes
    there = {message.id for message in source_messages((*context.kept, *context.tail))}
    kept = {key: digest for key, digest in known.items() if key in there}
    return {**modes, "words": {**kept, **new}}


def _without_source(modes: ModesState, source: str) -> ModesState:
    """Return the sections without what was read from one message."""
    sections = {
        name: [item for item in items if item["source"] != source]
        for name, items in modes["sections"].items()
    }
    return {**modes, "sections": sections}


def _live_sections(context: ContextParts, state: MemoryState) -> dict[str, list[str]]:
    """Return the items that the request shows, by section."""
    found: dict[str, list[str]] = {}
    blocks = state["blocks"]
    shown = [message.id or "" for message in source_messages((*context.kept, *context.tail))]
    for key in [key for key in shown if key in blocks]:
        found |= blocks[key].get("sections", {})
    return found


def _with_block_notes(
    state: MemoryState, key: str, notes: RenderedNotes, entry: str
) -> MemoryState:
    """Return the state with notes in one block; the entry says when they were made, if any."""
    block: Block = {**state["blocks"].get(key, {"text": "", "ids": []}), "entry": entry}
    if notes.text:
        block |= {"notes": notes.text, "sections": dict(notes.sections)}
    return {**state, "blocks": {**state["blocks"], key: block}}


def _with_only_notes(
    state: MemoryState, context: ContextParts, notes: RenderedNotes, entry: str
) -> MemoryState:
    """Return the state with notes in the block of the newest human message, and in no other."""
    bare = {key: without_notes(block) for key, block in state["blocks"].items()}
    return _with_block_notes({**state, "blocks": bare}, context.newest_human or "", notes, entry)


MOST_READ = 2_000
"""Maximum covered messages that are read, the newest: about 0.3 seconds, once per session."""


def with_covered_notes(
    transcript: Callable[[], Sequence[BaseMessage]],
    state: MemoryState,
    settings: AnnotationSettings,
    asked: str | None,
) -> MemoryState:
    """Return the state with what was read of the messages that its summary covers.

    They are read if a session has a mode and a summary, but nothing was read yet.

    Args:
        transcript: Returns the conversation, oldest first, with the covered messages as far as
            available.
        state: The memory's state.
        settings: Settings of working notes.
        asked: Name of the mode that a call asks for, or None.

    Returns:
        The state; the same object if there is nothing to read.
    """
    summary, known = state["summary"], state.get("modes")
    if summary is None or (known and known["read_to"]):
        return state
    mode = settings.mode_of(known, asked)
    if mode is None:
        return state
    messages = transcript()
    covered = spoken_messages(messages[: covered_end(messages, summary)])
    before = known or new_modes_state("" if asked is not None else mode.name)
    read = [group.messages for group in groups(covered[-MOST_READ:])]
    modes = read_groups(before, read, settings.turns, mode.limits)
    return state if modes is before else {**state, "modes": modes}
