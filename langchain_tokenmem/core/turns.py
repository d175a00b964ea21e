"""Turns of a conversation with their turn memories, and those that the model sees.

A turn begins with a human message, and ends when the model answers without a call; what another
agent does behind that answer is a turn of its own, so that no memory ever moves to another message.
A turn memory is read again as long as its calls are there; where some were removed it stays as it
was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import Group, groups, is_spoken, marked, marks_of, role_of
from langchain_tokenmem.core.repair import RepairedGroup
from langchain_tokenmem.core.turn_memory import (
    GroupOutcome,
    ReadOutcomes,
    TurnMemoryShown,
    TurnReading,
    empty_memory,
    is_empty,
    is_final,
    joined,
    turn_memory_text,
    united,
    with_turn_mark,
    with_turn_text,
)
from langchain_tokenmem.notes_state import TurnMemories, TurnMemory


def no_turns() -> TurnMemories:
    """Return turn memories of no turn."""
    return {"done": {}, "running": empty_memory(), "calls": {}}


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """Turn memory of one turn, with the message that it is kept by.

    Attributes:
        key: Id of the message that it is kept by: the model's last one, or while the turn runs the
            human one that began it.
        memory: Its turn memory.
        is_finished: Whether the message may show it.
        is_hidden: Whether a call that it tells of is not there any more.
        first: Last id of the first group whose calls it tells of; empty where none is there.
        results: Ids of the results that it tells of, but for covered ones.
    """

    key: str
    memory: TurnMemory
    is_finished: bool
    is_hidden: bool
    first: str = ""
    results: tuple[str, ...] = ()


@dataclass(slots=True)
class TurnSpan:
    """A turn while it is read, group by group; changed in place, for there may be thousands.

    Attributes:
        opening: Id of the human message that began it; empty where it is not known.
        memory: Turn memory so far.
        is_cut: Whether it was begun by messages that are covered, and some of these did something.
        last: Message of the model that was last.
        explicit: Turn memory that the application has set on it.
        first: Last id of the first group that did something.
        results: Ids of the results that tell of it.
    """

    opening: str = ""
    memory: TurnMemory = field(default_factory=empty_memory)
    is_cut: bool = False
    last: BaseMessage | None = None
    explicit: TurnMemory | None = None
    first: str = ""
    results: list[str] = field(default_factory=list)

    def add(self, group: Group, outcome: GroupOutcome | None) -> None:
        """Add one more group of the turn."""
        if role_of(group.messages[0]) != "ai":  # a result without its call
            return
        self.last, self.explicit = group.messages[0], outcome.explicit if outcome else None
        if outcome is not None and outcome.memory is not None:
            self.memory = joined(self.memory, outcome.memory)
            self.first = self.first or group.last_id
            self.results.extend(outcome.results)


@dataclass(frozen=True, slots=True)
class TurnReader:
    """Reads the turns of a tail.

    Attributes:
        outcomes: Outcomes of groups by the id of each one's last message.
        kept: Turn memories as the state has them.
        include_partial: Whether interrupted turns have a turn memory, too.
    """

    outcomes: Mapping[str, GroupOutcome] = field(default_factory=dict)
    kept: TurnMemories = field(default_factory=no_turns)
    include_partial: bool = False

    @property
    def is_idle(self) -> bool:
        """True where no turn can have a turn memory."""
        return not (self.outcomes or self.kept["done"] or not is_empty(self.kept["running"]))

    def read(self, visible: Iterable[Group], tail: Sequence[Group]) -> list[TurnOutcome]:
        """Return the turns that have a turn memory, oldest first.

        Args:
            visible: Covered groups that stay visible.
            tail: The groups after the pointer.
        """
        if self.is_idle:
            return []
        opening, covered = self._covered(visible)
        there = {m.id for group in tail for m in group.messages} if self.kept["calls"] else set()
        running = self.kept["running"]
        span = TurnSpan(opening, memory=running, is_cut=not is_empty(running))
        found: list[TurnOutcome | None] = []
        for group in tail:
            if role_of(group.messages[0]) == "human":
                found.append(self._finished(span, there))
                span = TurnSpan(group.messages[0].id or "")
                continue
            span.add(group, self.outcomes.get(group.last_id))
            if _ends_turn(group):
                found.append(self._finished(span, there))
                span = TurnSpan()
        if span.opening:  # while it runs it is kept by the message that began it
            found.append(self._turn(span, span.opening, there, is_finished=False))
        return [turn for turn in (*covered, *found) if turn is not None]

    def _covered(self, visible: Iterable[Group]) -> tuple[str, list[TurnOutcome | None]]:
        """Return the id of the last human message that is covered and visible, and the turns."""
        opening, found = "", []
        for group in visible:
            message = group.messages[0]
            if role_of(message) == "human":
                opening = message.id or ""
            elif is_final(message):
                found.append(self._visible(message, group))
        return opening, found

    def folded(self, turns: Sequence[TurnOutcome], groups: Sequence[Group]) -> TurnReader:
        """Return the reader after the oldest groups of the tail were covered.

        Args:
            turns: The turns as they were read before.
            groups: The groups that are covered.
        """
        running = self.kept["running"]
        for group in groups:
            if role_of(group.messages[0]) == "human" or _ends_turn(group):
                running = empty_memory()
            outcome = self.outcomes.get(group.last_id)
            if outcome is not None and outcome.memory is not None:
                running = joined(running, outcome.memory)
        gone = {message.id for group in groups for message in group.messages}
        calls = {turn.key: [key for key in turn.results if key not in gone] for turn in turns}
        done = {turn.key: turn.memory for turn in turns}
        return replace(self, kept={"done": done, "running": running, "calls": calls})

    def state(self, turns: Sequence[TurnOutcome], tail: Sequence[Group]) -> TurnMemories:
        """Return the turn memories as a state keeps them.

        Args:
            turns: The turns as they were read.
            tail: The groups after the pointer.
        """
        begins = bool(tail) and role_of(tail[0].messages[0]) == "human"
        return {
            "done": {turn.key: turn.memory for turn in turns},
            "running": empty_memory() if begins else self.kept["running"],
            "calls": {turn.key: [*turn.results] for turn in turns},
        }

    def _visible(self, message: BaseMessage, group: Group) -> TurnOutcome | None:
        """Return the turn of a covered message that stays visible."""
        outcome = self.outcomes.get(group.last_id)
        explicit = outcome.explicit if outcome else None
        memory = explicit if explicit is not None else self.kept["done"].get(message.id or "")
        if memory is None or is_empty(memory):
            return None
        return TurnOutcome(message.id or "", memory, is_finished=True, is_hidden=True)

    def _finished(self, span: TurnSpan, there: set[str | None]) -> TurnOutcome | None:
        """Return a turn that the model has ended; an interrupted one where these count, too."""
        last = span.last
        if last is None or not (is_final(last) or self.include_partial):
            return None
        if span.explicit is None:
            return self._turn(span, last.id or "", there, is_finished=is_final(last))
        if is_empty(span.explicit):
            return None
        hidden = span.is_cut or not span.first
        key = last.id or ""
        return TurnOutcome(key, span.explicit, True, hidden, span.first, tuple(span.results))

    def _turn(
        self, span: TurnSpan, key: str, there: set[str | None], *, is_finished: bool
    ) -> TurnOutcome | None:
        """Return the turn with what is kept of calls that were removed."""
        memory, hidden, results = span.memory, span.is_cut, tuple(span.results)
        for kept_by in (key, span.opening):
            kept, calls = self.kept["done"].get(kept_by), self.kept["calls"].get(kept_by, ())
            if kept is not None and any(result not in there for result in calls):
                memory, hidden = united(kept, memory), True
                results = tuple(dict.fromkeys((*calls, *results)))
                break
        if is_empty(memory):
            return None
        return TurnOutcome(key, memory, is_finished, hidden, span.first, results)


def covered_turn(covered: Sequence[BaseMessage], read: ReadOutcomes) -> TurnMemories:
    """Return what the covered part of the turn has done in which a summary ends.

    It is read where a state does not know it, because it was written before there was any.

    Args:
        covered: The messages up to the pointer, oldest first; those of that turn are enough.
        read: Reads the outcomes of groups.
    """
    ends = (n for n in range(len(covered), 0, -1) if _begins_or_ends(covered[n - 1]))
    start = next(ends, 0)
    running = empty_memory()
    for outcome in read(groups(covered[start:])).values() if covered else ():
        if outcome.memory is not None:
            running = joined(running, outcome.memory)
    return {**no_turns(), "running": running}


def _ends_turn(group: Group) -> bool:
    return len(group.messages) == 1 and is_final(group.messages[0])


def _begins_or_ends(message: BaseMessage) -> bool:
    return role_of(message) == "human" or is_final(message)


def with_turn_memories(messages: Sequence[BaseMessage], reading: TurnReading) -> list[BaseMessage]:
    """Return a whole conversation in which each turn's last message tells its turn memory.

    It stands in `response_metadata["tokenmem"]["turn_memory"]` of a copy.

    Args:
        messages: The conversation, oldest first, each message with an id of its own.
        reading: Reads them.
    """
    found = groups([*filter(is_spoken, messages)])
    reader = TurnReader(reading.outcomes(found), include_partial=reading.include_partial)
    roles = {message.id: role_of(message) for message in messages}
    memories = {t.key: t.memory for t in reader.read((), found) if roles.get(t.key) == "ai"}
    return [
        with_turn_mark(message, memories[message.id]) if message.id in memories else message
        for message in messages
    ]


Groups = Sequence[RepairedGroup]


@dataclass(frozen=True, slots=True)
class ShownTurns:
    """Turn memories of the messages of one request.

    Attributes:
        reader: Reads them from the groups.
        shown: Assistant messages that show theirs.
        turns: The turns that have one.
        memories: Turn memories by the id of the message that they belong to.
        texts: Those that are shown, as text.
    """

    reader: TurnReader = field(default_factory=TurnReader)
    shown: TurnMemoryShown = "never"
    turns: Sequence[TurnOutcome] = ()
    memories: Mapping[str, TurnMemory] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        reader: TurnReader,
        shown: TurnMemoryShown,
        kept: Groups,
        tail: Groups,
    ) -> ShownTurns:
        """Return the turn memories of covered groups that stay visible, and of the tail."""
        if reader.is_idle:
            return cls(reader, shown)
        turns = reader.read(_sources(kept), _sources(tail))
        finished = [turn for turn in turns if turn.is_finished]
        seen = [
            turn
            for turn in finished
            if shown == "always" or (shown == "when_hidden" and turn.is_hidden)
        ]
        memories = {turn.key: turn.memory for turn in finished}
        texts = {turn.key: turn_memory_text(turn.memory) for turn in seen}
        return cls(reader, shown, turns, memories, texts)

    def after_fold(self, tail: Groups, count: int, rest: Groups) -> ShownTurns:
        """Return them after the oldest `count` groups of the tail were covered.

        Args:
            tail: The tail before.
            count: How many groups are folded.
            rest: Covered groups that are visible then.
        """
        if not count or self.reader.is_idle:
            return self
        reader = self.reader.folded(self.turns, _sources(tail[:count]))
        return ShownTurns.of(reader, self.shown, rest, tail[count:])

    def state(self, tail: Groups) -> TurnMemories:
        """Return the turn memories as a state keeps them."""
        return self.reader.state(self.turns, _sources(tail[:1]))

    def text_tokens(self, message: BaseMessage, count: Callable[[BaseMessage], int]) -> int:
        """Return the tokens that a message has more by the turn memory that it shows."""
        shown = self.with_text(message)
        return 0 if shown is message else count(shown) - count(message)

    def with_text(self, message: BaseMessage) -> BaseMessage:
        """Return a message with its turn memory as text, where it shows one."""
        text = self.texts.get(message.id or "")
        return with_turn_text(message, text) if text else message

    def inserted(self, message: BaseMessage) -> BaseMessage:
        """Return a message with its turn memory: as text where it shows it, and in its metadata.

        With "when_hidden" a message without marks (one of a graph) gets none where its calls are
        seen: a copy of each answer would cost a view of 10,000 messages 25 ms of CPU time, six
        times what it takes else. With "never" the application renders, and finds them in all.
        """
        memory = self.memories.get(message.id or "")
        if memory is None:
            return message
        shown = self.with_text(message)
        if shown is message and self.shown == "when_hidden" and not marks_of(message):
            return message
        if shown is not message:
            shown = marked(shown, cut=True)  # handed back, it is no edit
        return with_turn_mark(shown, memory)


def _sources(groups: Groups) -> list[Group]:
    return [group.source for group in groups]
