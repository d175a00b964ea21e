"""Turn memories of a request: those that there are, and those that the model sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import Group, marked, marks_of
from langchain_tokenmem.core.repair import RepairedGroup
from langchain_tokenmem.core.turn_memory import (
    TurnMemoryShown,
    turn_memory_text,
    with_turn_mark,
    with_turn_text,
)
from langchain_tokenmem.core.turns import TurnOutcome, TurnReader
from langchain_tokenmem.notes_state import TurnMemories, TurnMemory

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
