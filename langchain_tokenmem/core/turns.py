"""Turns of a conversation with their turn memories, and those that the model sees.

A turn begins with a human message, and ends when the model answers without a call; what another
agent does after that answer is a separate turn, so that no memory ever moves to another message.
A turn memory is derived again as long as its calls exist; if some were removed, it stays
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import Group, groups, is_spoken, marked, marks_of, role_of
from langchain_tokenmem.core.repair import RepairedGroup
from langchain_tokenmem.core.turn_memory import (
    NO_OUTCOME,
    GroupOutcome,
    empty_memory,
    is_empty,
    is_final,
    joined,
    turn_memory_text,
    united,
    with_turn_mark,
    with_turn_text,
)
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from langchain_tokenmem.state import TurnMemories, TurnMemory

NO_TURNS: TurnMemories = {
    "done": {},
    "running": {"files_changed": [], "failed_commands": []},
    "calls": {},
}
"""Turn memories without a turn; never modified."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """Turn memory of one turn, with the message under which it is stored.

    Attributes:
        key: Id of the message under which it is stored: the model's last one, or while the turn
            runs, the human one that began it.
        memory: Its turn memory.
        is_finished: Whether the message may show it.
        is_hidden: Whether a call that it reports is no longer shown.
        results: Ids of the results that it reports, except for covered ones.
    """

    key: str
    memory: TurnMemory
    is_finished: bool
    is_hidden: bool
    results: tuple[str, ...] = ()


@dataclass(slots=True)
class _Span:
    """A turn while it is read, group by group; modified in place, as there may be thousands.

    Attributes:
        opening: Id of the human message that began it; empty if unknown.
        memory: Turn memory so far.
        is_cut: Whether its beginning is covered, and some covered message did something.
        last: Last message of the model.
        explicit: Turn memory that the application has set on it.
        acts: Whether one of its groups did something.
        results: Ids of the results that report it.
    """

    opening: str = ""
    memory: TurnMemory = field(default_factory=empty_memory)
    is_cut: bool = False
    last: BaseMessage | None = None
    explicit: TurnMemory | None = None
    acts: bool = False
    results: list[str] = field(default_factory=list)

    def add(self, group: Group, outcome: GroupOutcome) -> None:
        """Add one more group of the turn."""
        if role_of(group.messages[0]) != "ai":  # a result without its call
            return
        self.last, self.explicit = group.messages[0], outcome.explicit
        if not is_empty(outcome.memory):
            self.memory = joined(self.memory, outcome.memory)
            self.acts = True
            self.results.extend(outcome.results)


Groups = Sequence[RepairedGroup]


@dataclass(frozen=True, slots=True)
class ShownTurns:
    """Turn memories of the messages of one request.

    Attributes:
        reading: Settings by which they are read and shown.
        outcomes: Outcomes of groups by the id of each one's last message.
        kept: Turn memories in the state.
        turns: The turns that have one.
        memories: Turn memories by the id of their message.
        texts: Those that are shown, as text.
    """

    reading: TurnMemorySettings = field(default_factory=TurnMemorySettings)
    outcomes: Mapping[str, GroupOutcome] = field(default_factory=dict)
    kept: TurnMemories = field(default_factory=lambda: NO_TURNS)
    turns: Sequence[TurnOutcome] = ()
    memories: Mapping[str, TurnMemory] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Whether no turn can have a turn memory."""
        return not self.outcomes and self.kept == NO_TURNS

    def shown_with(self, visible: Groups, tail: Groups) -> ShownTurns:
        """Return the turn memories of covered groups that stay visible, and of the tail."""
        if self.is_idle:
            return self
        turns = self.read(_sources(visible), _sources(tail))
        finished = [turn for turn in turns if turn.is_finished]
        shown = self.reading.shown
        texts = {
            turn.key: turn_memory_text(turn.memory)
            for turn in finished
            if shown == "always" or (shown == "when_hidden" and turn.is_hidden)
        }
        memories = {turn.key: turn.memory for turn in finished}
        return replace(self, turns=turns, memories=memories, texts=texts)

    def after_fold(self, tail: Groups, count: int, rest: Groups) -> ShownTurns:
        """Return the turn memories once the oldest `count` groups of the tail are covered.

        Args:
            tail: The tail before.
            count: How many groups are folded.
            rest: Covered groups that are still visible then.
        """
        if not count or self.is_idle:
            return self
        groups, running = _sources(tail[:count]), self.kept["running"]
        for group in groups:
            if role_of(group.messages[0]) == "human" or _ends_turn(group):
                running = empty_memory()
            running = joined(running, self.outcomes.get(group.last_id, NO_OUTCOME).memory)
        gone = {message.id for group in groups for message in group.messages}
        calls = {turn.key: [key for key in turn.results if key not in gone] for turn in self.turns}
        done = {turn.key: turn.memory for turn in self.turns}
        kept: TurnMemories = {"done": done, "running": running, "calls": calls}
        return ShownTurns(self.reading, self.outcomes, kept).shown_with(rest, tail[count:])

    def state(self, tail: Groups) -> TurnMemories:
        """Return the turn memories in the form stored in a state."""
        if self.is_idle:
            return deepcopy(NO_TURNS)  # an application may modify its state
        begins = bool(tail) and role_of(tail[0].source.messages[0]) == "human"
        return {
            "done": {turn.key: turn.memory for turn in self.turns},
            "running": empty_memory() if begins else self.kept["running"],
            "calls": {turn.key: [*turn.results] for turn in self.turns},
        }

    def with_text(self, message: BaseMessage) -> BaseMessage:
        """Return a message with its turn memory as text, if it is shown."""
        text = self.texts.get(message.id or "")
        return with_turn_text(message, text) if text else message

    def inserted(self, message: BaseMessage) -> BaseMessage:
        """Return a message with its turn memory: as text if it is shown, and in its metadata.

        With "when_hidden" a message without marks (one of a graph) gets none if its calls are
        shown: copying each answer would cost a view of 10,000 messages 25 ms of CPU time, six
        times as much as otherwise. With "never" the application renders them, so all get them.
        """
        memory = self.memories.get(message.id or "")
        if memory is None:
            return message
        shown = self.with_text(message)
        if shown is message and self.reading.shown == "when_hidden" and not marks_of(message):
            return message
        if shown is not message:
            shown = marked(shown, cut=True)  # if handed back, it is not an edit
        return with_turn_mark(shown, memory)

    def read(self, visible: Iterable[Group], tail: Sequence[Group]) -> list[TurnOutcome]:
        """Return the turns that have a turn memory, oldest first.

        Args:
            visible: Covered groups that stay visible.
            tail: The groups after the pointer.
        """
        opening, covered = self._covered(visible)
        there = {m.id for group in tail for m in group.messages} if self.kept["calls"] else set()
        running = self.kept["running"]
        span = _Span(opening, memory=running, is_cut=not is_empty(running))
        found: list[TurnOutcome | None] = []
        for group in tail:
            if role_of(group.messages[0]) == "human":
                found.append(self._finished(span, there))
                span = _Span(group.messages[0].id or "")
                continue
            span.add(group, self.outcomes.get(group.last_id, NO_OUTCOME))
            if _ends_turn(group):
                found.append(self._finished(span, there))
                span = _Span()
        if span.opening:  # while it runs it is stored under the message that began it
            found.append(self._turn(span, span.opening, there, is_finished=False))
        return [turn for turn in (*covered, *found) if turn and not is_empty(turn.memory)]

    def _covered(self, visible: Iterable[Group]) -> tuple[str, list[TurnOutcome]]:
        """Return the id of the last covered, visible human message, and the turns."""
        opening, found = "", []
        for group in visible:
            message, key = group.messages[0], group.messages[0].id or ""
            if role_of(message) == "human":
                opening = key
            elif is_final(message):
                explicit = self.outcomes.get(group.last_id, NO_OUTCOME).explicit
                memory = self.kept["done"].get(key) if explicit is None else explicit
                if memory is not None:
                    found.append(TurnOutcome(key, memory, is_finished=True, is_hidden=True))
        return opening, found

    def _finished(self, span: _Span, there: set[str | None]) -> TurnOutcome | None:
        """Return a turn that the model has ended; also an interrupted one if these count."""
        last = span.last
        if last is None or not (is_final(last) or self.reading.include_partial):
            return None
        key = last.id or ""
        if span.explicit is None:
            return self._turn(span, key, there, is_finished=is_final(last))
        hidden = span.is_cut or not span.acts
        return TurnOutcome(key, span.explicit, True, hidden, tuple(span.results))

    def _turn(
        self, span: _Span, key: str, there: set[str | None], *, is_finished: bool
    ) -> TurnOutcome:
        """Return the turn with what is kept about removed calls."""
        memory, hidden, results = span.memory, span.is_cut, tuple(span.results)
        for kept_by in (key, span.opening):
            kept, calls = self.kept["done"].get(kept_by), self.kept["calls"].get(kept_by, ())
            if kept is not None and any(result not in there for result in calls):
                memory, hidden = united(kept, memory), True
                results = tuple(dict.fromkeys((*calls, *results)))
                break
        return TurnOutcome(key, memory, is_finished, hidden, results)


def covered_turn(covered: Sequence[BaseMessage], reading: TurnMemorySettings) -> TurnMemories:
    """Return the turn memory of the covered part of the turn in which a summary ends.

    It is read if a state lacks it: the summary was imported, or a message was edited.

    Args:
        covered: The messages up to the pointer, oldest first; those of that turn suffice.
        reading: Settings by which it is read.
    """
    ends = (n for n in range(len(covered), 0, -1) if _begins_or_ends(covered[n - 1]))
    start = next(ends, 0)
    running = empty_memory()
    for outcome in reading.outcomes(groups(covered[start:])).values():
        running = joined(running, outcome.memory)
    return {**NO_TURNS, "running": running}


def _ends_turn(group: Group) -> bool:
    return len(group.messages) == 1 and is_final(group.messages[0])


def _begins_or_ends(message: BaseMessage) -> bool:
    return role_of(message) == "human" or is_final(message)


def with_turn_memories(
    messages: Sequence[BaseMessage], reading: TurnMemorySettings
) -> list[BaseMessage]:
    """Return a whole conversation in which each turn's last message has its turn memory.

    It is in `response_metadata["tokenmem"]["turn_memory"]` of a copy.

    Args:
        messages: The conversation, oldest first, each message with a unique id.
        reading: Settings by which they are read.
    """
    found = groups([*filter(is_spoken, messages)])
    turns = ShownTurns(reading, reading.outcomes(found)).read((), found)
    roles = {message.id: role_of(message) for message in messages}
    memories = {t.key: t.memory for t in turns if roles.get(t.key) == "ai"}
    return [
        with_turn_mark(message, memories[message.id]) if message.id in memories else message
        for message in messages
    ]


def _sources(groups: Groups) -> list[Group]:
    return [group.source for group in groups]
