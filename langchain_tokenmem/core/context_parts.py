"""Parts of a request: system text, summary, kept groups and tail; the counts of its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.inserted_text import (
    LEFT_OUT,
    log_texts,
    text_of_block,
    with_block,
    with_log,
    with_text,
    without_notes,
)
from langchain_tokenmem.core.messages import is_pinned, marked, role_of
from langchain_tokenmem.core.profiles import COMMON, LegalityProfile
from langchain_tokenmem.core.provider_format import (
    fit_list,
    limit_cache_marks,
)
from langchain_tokenmem.core.repair import (
    FIRST_HUMAN_MESSAGE,
    PINS_ALONE,
    RepairedGroup,
    source_messages,
)
from langchain_tokenmem.core.request_options import RequestRules
from langchain_tokenmem.core.shortening import CountMessage, apply_cuts
from langchain_tokenmem.core.todos import todo_lists
from langchain_tokenmem.core.turns import ShownTurns
from langchain_tokenmem.state import Block, Cut, RunningSummary


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """Shown messages and tokens of groups under some cuts.

    Attributes:
        shown: Each group as shown with the cuts.
        tokens: Tokens of each group as shown.
    """

    shown: tuple[tuple[BaseMessage, ...], ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RequestCounter:
    """Token counts of one request, in which no message changes and each is counted several times.

    Attributes:
        count: Counts the tokens of one message.
        tools: Tokens of the tool schemas.
        overhead: Tokens around the conversation that the memory does not see.
        estimated: The counter without corrections; None if nothing is corrected. Decisions based
            on it do not change with a new correction.
        known: Tokens counted so far, by the identity of the message, which is stored with them so
            that no other object can get its identity meanwhile.
        known_sizes: Sizes counted so far, by the identity of groups and cuts, in the same way.
    """

    count: CountMessage
    tools: int = 0
    overhead: int = 0
    estimated: RequestCounter | None = None
    known: dict[int, tuple[BaseMessage, int]] = field(default_factory=dict)
    known_sizes: dict[tuple[int, int], tuple[Any, Any, GroupSizes]] = field(default_factory=dict)

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message."""
        found = self.known.get(id(message))
        if found is None:
            found = self.known[id(message)] = (message, self.count(message))
        return found[1]

    def group_sizes(self, groups: tuple[RepairedGroup, ...], cuts: Mapping[str, Cut]) -> GroupSizes:
        """Return the sizes of groups under `cuts`."""
        found = self.known_sizes.get((id(groups), id(cuts)))
        if found is None:
            shown = tuple(apply_cuts(group.messages, cuts) for group in groups)
            tokens = tuple(sum(map(self.message, messages)) for messages in shown)
            sizes = GroupSizes(shown, tokens)
            found = self.known_sizes[id(groups), id(cuts)] = (groups, cuts, sizes)
        return found[2]


_MOST_NEWEST = 4
"""Maximum groups at the end that stay because they begin with results not seen yet."""


@dataclass(frozen=True, slots=True)
class ContextParts:
    """The parts of the next request, with the functions that count and join them.

    Attributes:
        counter: How the request is counted.
        system: The application's own system text, as one message.
        summary: The running summary.
        kept: Covered groups that stay visible, oldest first.
        tail: Groups after the pointer, oldest first.
        cuts: Shortened forms by message id.
        first_request: Id of the pinned first human message.
        newest_human: Id of the newest human message.
        left_out: Number of messages replaced by a marker because they did not fit.
        warnings: Repairs that were made, and pins that do not fit.
        rules: Rules of the memory for every request.
        profile: Requirements of the provider.
        system_ids: Ids of the system messages that are in the conversation.
        blocks: Live memory blocks with a text, by the id of the message that contains them.
        notes_after_fold: Working notes of the newest human message once something is
            folded; None if all of them stay.
        can_read: Whether the model has a tool that opens a message by its reference.
        seen: First sights of messages without a time, by id.
        turns: Turn memories of the messages.
        pins: The pins as text in the request; empty if there are none.
        pins_in_human: Whether they are in the first human message, after the running summary;
            else in the system message, after its text.
        todos: The open to-do list that was folded, as text; empty if there is none, None if it
            does not fit.
        state_todos: The list in a graph's state, as text; None if there is none.
        overhead_messages: Number of messages of the request around these parts.
        outer_marks: Number of `cache_control` marks of the request outside of its messages.
        compaction: Id of the message with the newest encrypted compaction block, if there is one.
    """

    counter: RequestCounter
    system: BaseMessage | None
    summary: RunningSummary | None
    kept: tuple[RepairedGroup, ...]
    tail: tuple[RepairedGroup, ...]
    cuts: Mapping[str, Cut]
    first_request: str | None
    newest_human: str | None
    left_out: int = 0
    warnings: tuple[str, ...] = ()
    rules: RequestRules = field(default_factory=RequestRules)
    profile: LegalityProfile = COMMON
    system_ids: tuple[str, ...] = ()
    blocks: Mapping[str, Block] = field(default_factory=dict)
    notes_after_fold: str | None = None
    can_read: bool = False
    seen: Mapping[str, str] = field(default_factory=dict)
    turns: ShownTurns = field(default_factory=ShownTurns)
    pins: str = ""
    pins_in_human: bool = False
    todos: str | None = ""
    state_todos: str | None = None
    overhead_messages: int = 0
    outer_marks: int = 0
    compaction: str | None = None

    @property
    def last_id(self) -> str | None:
        """Id of the last message of the conversation; None if all messages are covered."""
        return self.tail[-1].source.last_id if self.tail else None

    @property
    def new_cut(self) -> Cut:
        """Empty cut, whose marker names the message if the model can open it."""
        return {"head": 0, "tail": 0, "named": self.can_read}

    def memory_texts(self) -> tuple[str, ...]:
        """Return the memory's texts about earlier messages: the summary, to-dos, a marker."""
        texts = log_texts(self.summary["entries"]) if self.summary else ()
        texts = (*texts, self.todos) if self.todos else texts
        return (*texts, LEFT_OUT) if self.left_out else texts

    def system_message(self) -> BaseMessage | None:
        """Return the system message: system text and, unless in a human message, memory text."""
        pinned = self.pinned_system()
        if self.rules.summary_role != "system" or not (texts := self.memory_texts()):
            return pinned
        whole = with_text(pinned, "\n\n".join(texts))
        return marked(whole, summary=True) if self.summary else whole

    def pinned_system(self) -> BaseMessage | None:
        """Return the application's own system text, followed by the pins if they belong there."""
        is_here = self.pins and not self.pins_in_human
        return with_text(self.system, self.pins) if is_here else self.system

    def request_messages(self) -> list[BaseMessage]:
        """Return the whole request: the system message, then the conversation."""
        system = self.system_message()
        whole = [*([system] if system is not None else []), *self.body()]
        marks = self.profile.cache_marks
        return whole if marks is None else limit_cache_marks(whole, marks - self.outer_marks)

    def body(self) -> list[BaseMessage]:
        """Return the messages after the system text."""
        parts = (
            self.counter.group_sizes(groups, self.cuts).shown for groups in (self.kept, self.tail)
        )
        shown = list(chain.from_iterable(chain.from_iterable(parts)))
        shown[:0] = self.opening()
        texts = self.memory_texts() if self.rules.summary_role != "system" else ()
        texts = (*texts, self.pins) if self.pins_in_human else texts
        if shown and (texts or self.blocks or self.turns.memories):
            shown = [self._with_inserted(shown[0], texts), *map(self._with_inserted, shown[1:])]
        return fit_list(shown, self.profile) if self.profile.shapes else shown

    def sizes(self, groups: Sequence[RepairedGroup]) -> Sequence[int]:
        """Return the tokens of each group as shown, including memory blocks."""
        sizes = self.counter.group_sizes(tuple(groups), self.cuts).tokens
        if not (self.blocks or self.turns.texts):
            return sizes
        added = (self.block_tokens(group) + self.turn_tokens(group) for group in groups)
        return [size + more for size, more in zip(sizes, added, strict=True)]

    def turn_tokens(self, group: RepairedGroup) -> int:
        """Return the tokens of the turn memory shown by a group: only one without calls."""
        if not self.turns.texts or len(group.messages) > 1:
            return 0
        own = apply_cuts(group.messages, self.cuts)
        count = self.counter.message
        return sum(map(count, map(self.turns.with_text, own))) - sum(map(count, own))

    def block_tokens(self, group: RepairedGroup) -> int:
        """Return the tokens of the memory blocks inside a group."""
        if not any(message.id in self.blocks for message in group.messages):
            return 0
        shown = apply_cuts(group.messages, self.cuts)
        return sum(
            self.counter.message(self._with_inserted(m)) - self.counter.message(m) for m in shown
        )

    def _with_inserted(self, message: BaseMessage, texts: Sequence[str] = ()) -> BaseMessage:
        """Return a message with the running summary, if it belongs there, then its memory block.

        In the first request, both come after the text; in another message before it, because that
        message leaves the request sooner or later and the summary stays. The block of a tool
        result comes after it.
        """
        message = self.turns.inserted(message)
        at_end = message.id == self.first_request or role_of(message) == "tool"
        held = self.blocks.get(message.id or "")
        block = text_of_block(held) if held else ""
        if block and not at_end:
            message = with_block(message, block, at_end=False)
        if texts:
            one_text = self.profile.one_text
            message = with_log(message, texts, at_end=at_end, one_text=one_text)
            if self.summary and self.rules.summary_role != "system":
                message = marked(message, summary=True)
        return with_block(message, block, at_end=True) if block and at_end else message

    def added_tokens(self, texts: Sequence[str]) -> int:
        """Return the tokens that texts of the running summary add to the request."""
        if self.rules.summary_role == "system":
            pinned = self.pinned_system()
            own = self.counter.message(pinned) if pinned is not None else 0
            return self.counter.message(with_text(pinned, "\n\n".join(texts))) - own
        first = self._first_shown()
        if first is None or role_of(first) != "human":
            first = FIRST_HUMAN_MESSAGE
        pins = (self.pins,) if self.pins_in_human else ()
        whole = self.counter.message(self._with_inserted(first, (*texts, *pins)))
        return whole - self.counter.message(self._with_inserted(first, pins))

    def _first_shown(self) -> BaseMessage | None:
        shown = (apply_cuts(group.messages, self.cuts) for group in chain(self.kept, self.tail))
        return next(chain.from_iterable(shown), None)

    def opening(self) -> tuple[BaseMessage, ...]:
        """Return what precedes the conversation, so that a human message comes first."""
        first = self._first_shown()
        if first is not None:
            return () if role_of(first) == "human" else (FIRST_HUMAN_MESSAGE,)
        if self.rules.summary_role != "system" and self.memory_texts():
            return (FIRST_HUMAN_MESSAGE,)
        return PINS_ALONE if self.pins_in_human else ()

    def is_required(self, group: RepairedGroup) -> bool:
        """Return whether a group stays visible when it is covered."""
        return any(
            message.id in {self.first_request, self.newest_human, self.compaction}
            or is_pinned(message)
            for message in group.source.messages
        )

    def newest_start(self) -> int:
        """Return the index of the newest tail group that stays whatever is folded.

        That is the last one; if only human messages follow the newest tool results, it is the
        group with these results: the model has not seen them yet.
        """
        newest = max(len(self.tail) - 1, 0)
        for index in range(len(self.tail) - 1, max(-1, newest - _MOST_NEWEST), -1):
            roles = {role_of(message) for message in self.tail[index].source.messages}
            if "ai" in roles:
                return index if "tool" in roles else newest
        return newest

    def with_folded(self, count: int) -> ContextParts:
        """Return the context with its oldest `count` tail groups covered."""
        required = [g for g in (*self.kept, *self.tail[:count]) if self.is_required(g)]
        turns = self.turns.after_fold(self.tail, count, required)
        rest = replace(self, kept=tuple(required), tail=self.tail[count:], turns=turns)
        if not count:
            return rest
        rest = replace(rest, todos=self.todos_after_fold(count))
        if self.blocks:
            # A block stays with its message until that is covered; the newest question keeps its
            # block.
            live = {message.id for group in rest.tail for message in group.messages}
            live.add(self.newest_human)
            rest = replace(rest, blocks={key: b for key, b in self.blocks.items() if key in live})
        notes = self.notes_after_fold
        return rest if notes is None else rest.with_notes(notes)

    def todos_after_fold(self, count: int) -> str | None:
        """Return the to-do list that is shown once the oldest `count` tail groups are covered.

        The list in a graph's state is used if no later call is shown.
        """
        if self.todos is None:
            return None
        folded, left = (
            next(todo_lists([*source_messages(groups)]), None)
            for groups in (self.tail[:count], self.tail[count:])
        )
        if self.state_todos is not None and left is None:
            return self.state_todos
        return self.todos if folded is None else folded

    def with_notes(self, text: str, *, others: bool = False) -> ContextParts:
        """Return the context with working notes in the block of the newest human message.

        Args:
            text: The notes; empty to remove them.
            others: Whether those in the blocks of other messages stay.
        """
        key = self.newest_human or ""
        blocks = {
            name: block if others and name != key else without_notes(block)
            for name, block in self.blocks.items()
        }
        if key and text:
            blocks[key] = {**blocks.get(key, {"text": "", "ids": []}), "notes": text}
        return self.with_blocks(blocks)

    @property
    def has_notes(self) -> bool:
        """Whether a memory block has working notes."""
        return any("notes" in block for block in self.blocks.values())

    def with_blocks(self, blocks: Mapping[str, Block]) -> ContextParts:
        """Return the context with other memory blocks; those without a text are left out."""
        shown = {key: block for key, block in blocks.items() if text_of_block(block)}
        return replace(self, blocks=shown)

    def with_newest_block(self) -> ContextParts:
        """Return the context with the memory block of the newest question only."""
        newest = self.newest_human or ""
        found = {newest: self.blocks[newest]} if newest in self.blocks else {}
        return replace(self, blocks=found)
