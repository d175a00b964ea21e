"""Token counts of one request: of its messages, its groups and its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import checked_tokens
from langchain_tokenmem.core.repair import RepairedGroup
from langchain_tokenmem.core.shortening import CountMessage, apply_cuts
from langchain_tokenmem.state import Cut


def checked_overhead(tokens: int) -> int:
    """Return the tokens that an application counts itself, in a request.

    Raises:
        ConfigurationError: When it is no whole number, or less than 0.
    """
    return checked_tokens("overhead_tokens", tokens)


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """Shown messages and tokens of groups under some cuts.

    Attributes:
        shown: Each group as the cuts show it.
        tokens: Tokens of each group as it is shown.
        largest: Tokens of the largest message that is not cut.
        message_count: How many messages of the transcript the groups hold.
    """

    shown: tuple[tuple[BaseMessage, ...], ...] = ()
    tokens: tuple[int, ...] = ()
    largest: int = 0
    message_count: int = 0

    def times(self, ratio: float) -> GroupSizes:
        """Return the sizes under a correction of the counts."""
        tokens = tuple(round(ratio * size) for size in self.tokens)
        return replace(self, tokens=tokens, largest=round(ratio * self.largest))


def group_sizes(
    found: Sequence[RepairedGroup],
    cuts: Mapping[str, Cut],
    count: CountMessage,
) -> GroupSizes:
    """Return the sizes of groups under `cuts`."""
    shown = tuple(apply_cuts(group.messages, cuts) for group in found)
    uncut = (m for group in found for m in group.messages if (m.id or "") not in cuts)
    return GroupSizes(
        shown,
        tuple(sum(map(count, messages)) for messages in shown),
        max(map(count, uncut), default=0),
        sum(len(group.source.messages) for group in found),
    )


@dataclass(frozen=True, slots=True)
class RequestCounter:
    """Token counts of one request.

    Attributes:
        message: Tokens of one message.
        tools: Tokens of the tool schemas.
        overhead: Tokens around the conversation that the memory does not see.
        estimated: The counter without corrections; None where nothing is corrected. What is decided
            by it does not change with a new correction.
        known_sizes: Sizes found so far, by the identity of groups and cuts, which are kept beside
            them.
    """

    message: CountMessage
    tools: int = 0
    overhead: int = 0
    estimated: RequestCounter | None = None
    known_sizes: dict[tuple[int, int], tuple[Any, Any, GroupSizes]] = field(default_factory=dict)

    def group_sizes(self, groups: tuple[RepairedGroup, ...], cuts: Mapping[str, Cut]) -> GroupSizes:
        """Return the sizes of groups under `cuts`."""
        known = self.known_sizes.get((id(groups), id(cuts)))
        if known:
            return known[2]
        return self.remember(groups, cuts, group_sizes(groups, cuts, self.message))

    def remember(
        self, groups: tuple[RepairedGroup, ...], cuts: Mapping[str, Cut], sizes: GroupSizes
    ) -> GroupSizes:
        """Keep the sizes of groups under `cuts`, and return them."""
        self.known_sizes[id(groups), id(cuts)] = (groups, cuts, sizes)
        return sizes


def cached_count(count: CountMessage) -> CountMessage:
    """Return `count` with a cache by message identity.

    It serves one call, in which messages do not change and each is counted several times. The
    cache keeps the message, so that no other object can get its identity meanwhile.
    """
    known: dict[int, tuple[BaseMessage, int]] = {}

    def counted(message: BaseMessage) -> int:
        found = known.get(id(message))
        if found is None:
            found = known[id(message)] = (message, count(message))
        return found[1]

    return counted
