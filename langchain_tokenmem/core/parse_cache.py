"""What of a conversation need not be looked at again.

A conversation in a graph grows at its end, and its messages are the same objects from call to
call. So all but the newest turn is kept as it was taken apart, with a copy of what each message
said. The next call compares, which is much cheaper; where one message is another object, or says
something else, everything is taken apart anew. The outcome is the same either way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import groups, role_of
from langchain_tokenmem.core.profiles import LegalityProfile
from langchain_tokenmem.core.provider_format import fit_message
from langchain_tokenmem.core.repair import Dangling, RepairedGroup, repair_groups
from langchain_tokenmem.core.shortening import apply_cuts
from langchain_tokenmem.state import Cut

CountMessage = Callable[[BaseMessage], int]


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """What groups weigh under some cuts.

    Attributes:
        shown: Each group as the cuts show it.
        sizes: Tokens of each group as it is shown.
        heaviest: Tokens of the largest message that is not cut.
        messages: How many messages of the transcript the groups hold.
    """

    shown: tuple[tuple[BaseMessage, ...], ...] = ()
    sizes: tuple[int, ...] = ()
    heaviest: int = 0
    messages: int = 0

    def __add__(self, other: GroupSizes) -> GroupSizes:
        return GroupSizes(
            self.shown + other.shown,
            self.sizes + other.sizes,
            max(self.heaviest, other.heaviest),
            self.messages + other.messages,
        )


def group_sizes(
    found: Sequence[RepairedGroup], cuts: Mapping[str, Cut], count: CountMessage
) -> GroupSizes:
    """Return what groups weigh under `cuts`."""
    shown = tuple(apply_cuts(group.messages, cuts) for group in found)
    uncut = (m for group in found for m in group.messages if (m.id or "") not in cuts)
    return GroupSizes(
        shown,
        tuple(sum(map(count, messages)) for messages in shown),
        max(map(count, uncut), default=0),
        sum(len(group.source.messages) for group in found),
    )


@dataclass(frozen=True, slots=True)
class ParseRules:
    """What decides, beside the messages, how they are taken apart.

    Attributes:
        cuts: Shortened forms by message id.
        count: Tokens of a message.
        dangling: What becomes of a tool call without a result.
        profile: What the provider asks of the list.
    """

    cuts: Mapping[str, Cut]
    count: CountMessage
    dangling: Dangling
    profile: LegalityProfile


@dataclass(frozen=True, slots=True)
class ParsedMessages:
    """A run of messages taken apart.

    Attributes:
        messages: The run as it was given, each message with an id.
        taken: Ids of the tool calls up to its end.
        system: The system messages in it.
        humans: Ids of its first and its last human message; empty where there is none.
        groups: What was said in it, as providers accept it.
        notes: What was repaired.
        weights: What the groups weigh.
    """

    messages: tuple[BaseMessage, ...] = ()
    taken: frozenset[str] = frozenset()
    system: tuple[BaseMessage, ...] = ()
    humans: tuple[str | None, ...] = ()
    groups: tuple[RepairedGroup, ...] = ()
    notes: tuple[str, ...] = ()
    weights: GroupSizes = field(default_factory=GroupSizes)

    def followed_by(self, messages: Sequence[BaseMessage], terms: ParseRules) -> ParsedMessages:
        """Return the passage that goes on with `messages`, which begin a group."""
        if not messages:
            return self
        spoken = [m for m in messages if role_of(m) not in {"system", "remove"}]
        humans = [message.id for message in spoken if role_of(message) == "human"]
        taken = set(self.taken)
        mended, notes = repair_groups(groups(spoken), dangling=terms.dangling, taken=taken)
        if terms.profile.fits:
            mended = [_fitting(group, terms.profile) for group in mended]
        return ParsedMessages(
            messages=(*self.messages, *messages),
            taken=frozenset(taken),
            system=(*self.system, *(m for m in messages if role_of(m) == "system")),
            humans=_ends([*self.humans, *humans]),
            groups=(*self.groups, *mended),
            notes=(*self.notes, *notes),
            weights=self.weights + group_sizes(mended, terms.cuts, terms.count),
        )


def _ends(humans: list[str | None]) -> tuple[str | None, ...]:
    return (humans[0], humans[-1]) if humans else ()


def _fitting(group: RepairedGroup, profile: LegalityProfile) -> RepairedGroup:
    messages = tuple(fit_message(message, profile) for message in group.messages)
    same = all(one is other for one, other in zip(messages, group.messages, strict=True))
    return group if same else replace(group, messages=messages)


@dataclass(frozen=True, slots=True)
class ParsedPrefix:
    """A passage to which nothing that follows belongs, and what its messages said.

    Attributes:
        start: Ids of the tool calls before the passage.
        cuts: The cuts of its messages.
        passage: The passage.
        seals: A copy of the fields of each message.
    """

    start: frozenset[str]
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    passage: ParsedMessages = field(default_factory=ParsedMessages)
    seals: tuple[Mapping[str, Any], ...] = ()

    def holds(
        self, messages: Sequence[BaseMessage], start: frozenset[str], cuts: Mapping[str, Cut]
    ) -> bool:
        """Return whether `messages` begin with the passage, unchanged."""
        own = self.passage.messages
        if len(own) > len(messages) or start != self.start or not all(map(is_, own, messages)):
            return False
        if own and len(own) < len(messages) and role_of(messages[len(own)]) != "ai":
            return False  # the turn behind it is gone, and a late result may now belong to it
        try:
            if self.seals != tuple(map(vars, own)):
                return False
        except Exception:  # noqa: BLE001  # an application's own values may refuse to be compared
            return False
        return _cuts_of(own, cuts) == self.cuts

    def grown(self, messages: Sequence[BaseMessage], terms: ParseRules) -> ParsedPrefix:
        """Return this with `messages` behind it; itself if they cannot be told from edited ones."""
        seals = _seals(messages)
        if not messages or seals is None:
            return self
        return ParsedPrefix(
            start=self.start,
            cuts={**self.cuts, **_cuts_of(messages, terms.cuts)},
            passage=self.passage.followed_by(messages, terms),
            seals=(*self.seals, *seals),
        )


class ParseCache:
    """What is settled of one conversation; one reference, so that threads need no lock."""

    __slots__ = ("settled",)

    def __init__(self) -> None:
        self.settled = ParsedPrefix(frozenset())


def parse_messages(
    messages: Sequence[BaseMessage], start: frozenset[str], terms: ParseRules, memo: ParseCache
) -> ParsedMessages:
    """Return messages taken apart, as `ParsedMessages(taken=start).followed_by` does.

    Args:
        messages: The messages, each with an id of its own.
        start: Ids of the tool calls before them.
        terms: What else decides; the same for every call with this memo, but for the cuts.
        memo: Gives what is settled, and takes what is settled now.
    """
    settled = memo.settled
    if not settled.holds(messages, start, terms.cuts):
        settled = ParsedPrefix(start, passage=ParsedMessages(taken=start))
    rest = messages[len(settled.passage.messages) :]
    turn = _last_turn(rest)
    grown = settled.grown(rest[:turn], terms)
    memo.settled = grown
    return grown.passage.followed_by(messages[len(grown.passage.messages) :], terms)


def _last_turn(messages: Sequence[BaseMessage]) -> int:
    """Return where the model has last begun to speak: what follows belongs to no earlier group."""
    for index in range(len(messages) - 1, 0, -1):
        if role_of(messages[index]) == "ai" and role_of(messages[index - 1]) in {"human", "tool"}:
            return index
    return 0


def _cuts_of(messages: Sequence[BaseMessage], cuts: Mapping[str, Cut]) -> dict[str, Cut]:
    if not cuts:
        return {}
    ids = {message.id for message in messages}
    return {key: copy.copy(cut) for key, cut in cuts.items() if key in ids}


def _seals(messages: Sequence[BaseMessage]) -> list[dict[str, Any]] | None:
    """Return copies of what messages hold; None where a copy does not equal its original."""
    try:
        seals = [{k: _sealed(k, v) for k, v in vars(message).items()} for message in messages]
        return seals if seals == list(map(vars, messages)) else None
    except Exception:  # noqa: BLE001  # anything may stand in a message: locks, generators, cycles
        return None


def _sealed(name: str, value: Any) -> Any:
    # An artifact is neither counted nor shown, and may be large.
    if value is None or type(value) is str or name == "artifact":
        return value
    return copy.deepcopy(value) if value else type(value)()
