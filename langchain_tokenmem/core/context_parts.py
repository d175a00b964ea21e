"""A conversation taken apart under a state: what is covered, what stays visible, what is tail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_tokenmem.core.inserted_text import (
    left_out_text,
    merged_system,
    summary_text,
    with_block,
    with_text,
)
from langchain_tokenmem.core.messages import SPOKEN_TYPES, is_pinned, role_of, with_ids
from langchain_tokenmem.core.parse_cache import (
    GroupSizes,
    ParseCache,
    ParsedMessages,
    ParseRules,
    group_sizes,
    parse_messages,
)
from langchain_tokenmem.core.profiles import COMMON, LegalityProfile
from langchain_tokenmem.core.provider_format import BRIDGE_TEXT, CONTINUE_MESSAGE, fit_list
from langchain_tokenmem.core.repair import FIRST_HUMAN_MESSAGE, Dangling, RepairedGroup
from langchain_tokenmem.core.shortening import apply_cuts
from langchain_tokenmem.state import Cut, MemoryState, RunningSummary

REPLY_PRIMING = 3
"""Tokens that every request adds for the start of the reply (OpenAI's published formula)."""


@dataclass(frozen=True, slots=True)
class RequestCounter:
    """How a request is counted.

    Attributes:
        message: Tokens of one message.
        tools: Tokens of the tool schemas.
        overhead: Tokens around the conversation that the memory does not see.
        known: What was weighed already, with the groups and cuts by whose identity it is found.
    """

    message: Callable[[BaseMessage], int]
    tools: int = 0
    overhead: int = 0
    known: dict[tuple[int, int], tuple[Any, Any, GroupSizes]] = field(default_factory=dict)

    def weights(self, found: tuple[RepairedGroup, ...], cuts: Mapping[str, Cut]) -> GroupSizes:
        """Return what groups weigh under `cuts`."""
        known = self.known.get((id(found), id(cuts)))
        return known[2] if known else self.note(found, cuts, group_sizes(found, cuts, self.message))

    def note(
        self, found: tuple[RepairedGroup, ...], cuts: Mapping[str, Cut], weights: GroupSizes
    ) -> GroupSizes:
        """Take what groups weigh under `cuts`, and return it."""
        self.known[id(found), id(cuts)] = (found, cuts, weights)
        return weights


def cached_count(count: Callable[[BaseMessage], int]) -> Callable[[BaseMessage], int]:
    """Return a count that knows each message object after the first time.

    For one call, in which nobody changes a message and each is counted several times. The message
    is kept beside its count, so that its identity belongs to no other meanwhile.
    """
    known: dict[int, tuple[BaseMessage, int]] = {}

    def counted(message: BaseMessage) -> int:
        found = known.get(id(message))
        if found is None:
            found = known[id(message)] = (message, count(message))
        return found[1]

    return counted


@dataclass(frozen=True, slots=True)
class ContextParts:
    """A conversation as the next request would show it.

    Attributes:
        system: The application's own system text, as one message.
        summary: The running summary.
        kept: Covered groups that stay visible, oldest first.
        tail: Groups after the pointer, oldest first.
        cuts: Shortened forms by message id.
        first_request: Id of the pinned first human message.
        newest_human: Id of the newest human message.
        left_out: Messages that a marker stands for, because they did not fit.
        notes: What was repaired.
        profile: What the provider asks of the list.
        system_ids: Ids of the system messages that stand in the conversation.
        blocks: Texts of live memory blocks, by the id of the human message in which they ride.
    """

    system: BaseMessage | None
    summary: RunningSummary | None
    kept: tuple[RepairedGroup, ...]
    tail: tuple[RepairedGroup, ...]
    cuts: Mapping[str, Cut]
    first_request: str | None
    newest_human: str | None
    left_out: int = 0
    notes: tuple[str, ...] = ()
    profile: LegalityProfile = COMMON
    system_ids: tuple[str, ...] = ()
    blocks: Mapping[str, str] = field(default_factory=dict)

    def shown(self, group: RepairedGroup) -> tuple[BaseMessage, ...]:
        """Return a group as this scene shows it, memory blocks aside."""
        return apply_cuts(group.messages, self.cuts)

    def front(self) -> BaseMessage | None:
        """Return the system message with everything that rides in it."""
        system = self.system
        if self.summary is not None and self.summary["text"]:
            system = with_text(system, summary_text(self.summary))
        if self.left_out:
            system = with_text(system, left_out_text(self.left_out))
        return system

    def body(self, meter: RequestCounter) -> list[BaseMessage]:
        """Return the messages after the system text."""
        parts = (meter.weights(found, self.cuts).shown for found in (self.kept, self.tail))
        shown = list(chain.from_iterable(chain.from_iterable(parts)))
        if self.blocks:
            shown = [self._with_block(message) for message in shown]
        if shown and role_of(shown[0]) != "human":
            shown.insert(0, FIRST_HUMAN_MESSAGE)
        return fit_list(shown, self.profile)

    def sizes(self, found: Sequence[RepairedGroup], meter: RequestCounter) -> Sequence[int]:
        """Return the tokens of groups as this scene shows them, memory blocks included."""
        sizes = meter.weights(tuple(found), self.cuts).sizes
        if not self.blocks:
            return sizes
        added = (self._block_tokens(group, meter) for group in found)
        return [size + more for size, more in zip(sizes, added, strict=True)]

    def _block_tokens(self, group: RepairedGroup, meter: RequestCounter) -> int:
        """Return the tokens of the memory blocks that ride in a group."""
        if not any(message.id in self.blocks for message in group.messages):
            return 0
        shown = self.shown(group)
        return sum(meter.message(self._with_block(m)) - meter.message(m) for m in shown)

    def _with_block(self, message: BaseMessage) -> BaseMessage:
        text = self.blocks.get(message.id or "")
        return with_block(message, text) if text else message

    def parts(self, meter: RequestCounter) -> dict[str, int]:
        """Return the tokens of each part of the request."""
        own = meter.message(self.system) if self.system is not None else 0
        front = self.front()
        kept, tail = sum(self.sizes(self.kept, meter)), sum(self.sizes(self.tail, meter))
        blocks = [
            sum(self._block_tokens(group, meter) for group in found) if self.blocks else 0
            for found in (self.kept, self.tail)
        ]
        if self.profile.shapes:
            added = sum(map(meter.message, self.body(meter))) - kept - tail
        else:
            added = 0 if self._opens_itself() else meter.message(FIRST_HUMAN_MESSAGE)
        return {
            "system": own + meter.overhead + REPLY_PRIMING,
            "tools": meter.tools,
            "pinned": kept - blocks[0],
            "summary": (meter.message(front) if front is not None else 0) - own,
            "memory_block": sum(blocks),
            "tail": tail - blocks[1] + added,
        }

    def _opens_itself(self) -> bool:
        """Return whether a human message stands first, or none at all."""
        shown = chain.from_iterable(map(self.shown, chain(self.kept, self.tail)))
        first = next(shown, None)
        return first is None or role_of(first) == "human"

    def most_added(self, meter: RequestCounter) -> int:
        """Return the most tokens that the provider's shape adds, however much is folded.

        Every bridge that stands now may stay, and every group that is kept when its neighbours
        go may need another one.
        """
        if not self.profile.shapes:
            return 0
        standing = sum(str(message.id).endswith("~bridge") for message in self.body(meter))
        seams = 2 + len(self.kept) + sum(map(self.is_required, self.tail))
        bridge = max(
            meter.message(AIMessage(BRIDGE_TEXT)), meter.message(HumanMessage(BRIDGE_TEXT))
        )
        return (standing + seams) * bridge + meter.message(CONTINUE_MESSAGE)

    def is_required(self, group: RepairedGroup) -> bool:
        """Return whether a group stays visible when it is covered."""
        return any(
            message.id in {self.first_request, self.newest_human} or is_pinned(message)
            for message in group.source.messages
        )

    def folded(self, count: int) -> ContextParts:
        """Return the scene after its oldest `count` tail groups were covered."""
        required = [g for g in (*self.kept, *self.tail[:count]) if self.is_required(g)]
        rest = replace(self, kept=tuple(required), tail=self.tail[count:])
        if not (count and self.blocks):
            return rest
        # A block stays with its message until that is covered; the newest question keeps its own.
        live = {message.id for group in rest.tail for message in group.messages}
        live.add(self.newest_human)
        return replace(rest, blocks={key: b for key, b in self.blocks.items() if key in live})

    def with_newest_block(self) -> ContextParts:
        """Return the scene with the memory block of the newest question only."""
        newest = self.newest_human or ""
        found = {newest: self.blocks[newest]} if newest in self.blocks else {}
        return replace(self, blocks=found)


def split_context(
    messages: Sequence[BaseMessage],
    state: MemoryState,
    meter: RequestCounter,
    *,
    system: str | BaseMessage | None = None,
    pin_first: bool = True,
    dangling: Dangling = "answer",
    profile: LegalityProfile = COMMON,
    memo: ParseCache | None = None,
) -> ContextParts:
    """Return the conversation under `state`.

    Messages up to the summary's pointer are covered: of them only the kept ones are shown. Where
    the pointer's message is not among `messages`, all of them are tail: showing something twice
    is a smaller fault than losing it.
    """
    own: list[BaseMessage] = [system] if isinstance(system, BaseMessage) else []
    if isinstance(system, str) and system:
        own.append(SystemMessage(system))
    unique = with_ids(messages)
    summary = state["summary"]
    start = _after(unique, summary["covers_to"]) if summary else 0
    ids = set(state["kept"])
    terms = ParseRules(state["cuts"], meter.message, dangling, profile)
    # Of what is covered only this is looked at: a turn costs what is new, not what is old.
    covered = [m for m in unique[:start] if m.id in ids or m.type not in SPOKEN_TYPES]
    visible = [m for m in covered if m.id in ids or role_of(m) == "system"]
    kept = ParsedMessages().followed_by(visible, terms)
    tail = parse_messages(unique[start:], kept.taken, terms, memo or ParseCache())
    for passage in (kept, tail):
        meter.note(passage.groups, state["cuts"], passage.weights)
    humans = (*kept.humans, *tail.humans)
    inside = (*kept.system, *tail.system)
    return ContextParts(
        system=merged_system([*own, *inside]),
        summary=summary,
        kept=kept.groups,
        tail=tail.groups,
        cuts=state["cuts"],
        first_request=humans[0] if humans and pin_first else None,
        newest_human=humans[-1] if humans else None,
        notes=(*kept.notes, *tail.notes),
        profile=profile,
        system_ids=tuple(message.id or "" for message in inside),
        blocks={key: block["text"] for key, block in state["blocks"].items() if block["text"]},
    )


def _after(messages: Sequence[BaseMessage], pointer: str) -> int:
    """Return the index behind the message with the id `pointer`; 0 where it is missing."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].id == pointer:
            return index + 1
    return 0
