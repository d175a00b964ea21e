"""Parsing of messages into repaired groups, with a cache of all but the newest turn.

A conversation in a graph grows at its end, and its messages are the same objects from call to
call. The cache keeps the groups of all but the newest turn with a copy of each message's fields.
The next call compares fields, which is much cheaper than parsing (10,000 messages that are all in
the window: 10 ms of CPU time a call instead of 96 ms). Where a message is another object or was
edited in place, everything is parsed again. The result is the same either way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from operator import is_
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.edited_words import CheckedMessages
from langchain_tokenmem.core.message_times import TimePrefixes
from langchain_tokenmem.core.messages import groups, is_spoken, role_of
from langchain_tokenmem.core.profiles import LegalityProfile
from langchain_tokenmem.core.provider_format import fit_message
from langchain_tokenmem.core.repair import Dangling, RepairedGroup, repair_groups, says_nothing
from langchain_tokenmem.core.request_counter import GroupSizes, group_sizes
from langchain_tokenmem.core.shortening import CountMessage
from langchain_tokenmem.core.turn_cache import TurnCache
from langchain_tokenmem.core.turn_memory import GroupOutcome, ReadOutcomes, no_outcomes
from langchain_tokenmem.state import Cut

_MAX_PARSE_CACHES = 16
"""Conversations of which a memory keeps the parsed messages, the most recently used ones."""


@dataclass(frozen=True, slots=True)
class ParseRules:
    """Settings that decide, beside the messages, how messages are parsed.

    Attributes:
        cuts: Shortened forms by message id.
        count: Tokens of a message.
        dangling: Treatment of a tool call without a result.
        profile: Requirements of the provider.
        times: Messages that show their time; None for none.
        outcomes: Reads the outcomes of groups.
    """

    cuts: Mapping[str, Cut]
    count: CountMessage
    dangling: Dangling
    profile: LegalityProfile
    times: TimePrefixes | None = None
    outcomes: ReadOutcomes = no_outcomes


@dataclass(frozen=True, slots=True)
class ParsedMessages:
    """A run of messages, parsed.

    Attributes:
        messages: The run as it was given, each message with an id.
        call_ids: Ids of all tool calls up to its end.
        system: The system messages in it.
        humans: Ids of its first and its last human message; empty where there is none.
        groups: The conversation in it, as providers accept it.
        repairs: Repairs that were made.
        adapted: Changes that were made for the provider.
        sizes: Sizes of the groups.
        answered: Time of the answer that it ends with, where times are shown.
        outcomes: What groups have changed, and what failed, by the id of each one's last message.
    """

    messages: tuple[BaseMessage, ...] = ()
    call_ids: frozenset[str] = frozenset()
    system: tuple[BaseMessage, ...] = ()
    humans: tuple[str | None, ...] = ()
    groups: tuple[RepairedGroup, ...] = ()
    repairs: tuple[str, ...] = ()
    adapted: tuple[str, ...] = ()
    sizes: GroupSizes = field(default_factory=GroupSizes)
    answered: datetime | None = None
    outcomes: Mapping[str, GroupOutcome] = field(default_factory=dict)

    def extended(self, messages: Sequence[BaseMessage], rules: ParseRules) -> ParsedMessages:
        """Return this run with `messages` behind it, which begin a group."""
        if not messages:
            return self
        conversation = [*filter(is_spoken, messages)]
        humans = [*self.humans, *(m.id for m in conversation if role_of(m) == "human")]
        used = set(self.call_ids)
        found = groups(conversation)
        repaired, repairs = repair_groups(
            found, dangling=rules.dangling, used=used, profile=rules.profile
        )
        adapted: list[str] = []
        if rules.profile.fits:
            repaired = [_fit_group(group, rules.profile, adapted) for group in repaired]
        answered = self.answered
        if rules.times is not None:
            repaired, answered = rules.times.shown_on(repaired, answered)
        return ParsedMessages(
            messages=(*self.messages, *messages),
            call_ids=frozenset(used),
            system=(*self.system, *(m for m in messages if role_of(m) == "system")),
            humans=(humans[0], humans[-1]) if humans else (),
            groups=(*self.groups, *repaired),
            repairs=(*self.repairs, *repairs),
            adapted=(*self.adapted, *adapted),
            sizes=self.sizes + group_sizes(repaired, rules.cuts, rules.count),
            answered=answered,
            outcomes={**self.outcomes, **new} if (new := rules.outcomes(found)) else self.outcomes,
        )


def _fit_group(
    group: RepairedGroup, profile: LegalityProfile, warnings: list[str]
) -> RepairedGroup:
    messages = tuple(
        fitted
        for message in group.messages
        if not says_nothing(fitted := fit_message(message, profile, warnings))
    )
    return group.showing(messages)


@dataclass(frozen=True, slots=True)
class ParsedPrefix:
    """Parsed messages that end at a group's end, with copies of their fields.

    Attributes:
        earlier_calls: Ids of the tool calls before the messages.
        cuts: The cuts of the messages.
        parsed: The parsed messages.
        snapshots: A copy of the fields of each message.
        seen: First sights of the messages.
    """

    earlier_calls: frozenset[str]
    parsed: ParsedMessages
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    snapshots: tuple[Mapping[str, Any], ...] = ()
    seen: Mapping[str, str] = field(default_factory=dict)

    def begins(
        self,
        messages: Sequence[BaseMessage],
        earlier_calls: frozenset[str],
        rules: ParseRules,
    ) -> bool:
        """Return whether `messages` begin with this prefix, unchanged."""
        own = self.parsed.messages
        if earlier_calls != self.earlier_calls or len(own) > len(messages):
            return False
        if not all(map(is_, own, messages)):
            return False
        if own and len(own) < len(messages) and role_of(messages[len(own)]) != "ai":
            return False  # the turn behind it is gone, and a late result may now belong to it
        try:
            if self.snapshots != tuple(map(vars, own)):
                return False
        except Exception:  # noqa: BLE001  # an application's own values may refuse to be compared
            return False
        return _cuts_of(own, rules.cuts) == self.cuts and _seen_of(own, rules) == self.seen

    def extended(self, messages: Sequence[BaseMessage], rules: ParseRules) -> ParsedPrefix:
        """Return this with `messages` behind it; itself if they cannot be told from edited ones."""
        snapshots = _snapshots(messages)
        if not messages or snapshots is None:
            return self
        return ParsedPrefix(
            self.earlier_calls,
            self.parsed.extended(messages, rules),
            {**self.cuts, **_cuts_of(messages, rules.cuts)},
            (*self.snapshots, *snapshots),
            {**self.seen, **_seen_of(messages, rules)},
        )


class ParseCache:
    """The parsed prefix of one conversation; one reference, so that threads need no lock.

    Attributes:
        turns: The turns of its groups.
        checked: Its covered messages that were compared with the summary.
    """

    __slots__ = ("_prefix", "checked", "turns")

    def __init__(self) -> None:
        self.checked = CheckedMessages()
        self.turns = TurnCache()
        self._prefix: ParsedPrefix | None = None

    def parse(
        self, messages: Sequence[BaseMessage], earlier_calls: frozenset[str], rules: ParseRules
    ) -> ParsedMessages:
        """Return messages parsed, as `ParsedMessages(call_ids=earlier_calls).extended` does.

        Args:
            messages: The messages, each with an id of its own.
            earlier_calls: Ids of the tool calls before them.
            rules: What else decides; the same for every call of one cache, but for cuts and times.
        """
        prefix = self._prefix
        if prefix is None or not prefix.begins(messages, earlier_calls, rules):
            prefix = ParsedPrefix(earlier_calls, ParsedMessages(call_ids=earlier_calls))
        rest = messages[len(prefix.parsed.messages) :]
        prefix = self._prefix = prefix.extended(rest[: _newest_turn(rest)], rules)
        return prefix.parsed.extended(messages[len(prefix.parsed.messages) :], rules)


def _newest_turn(messages: Sequence[BaseMessage]) -> int:
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


def _seen_of(messages: Sequence[BaseMessage], rules: ParseRules) -> dict[str, str]:
    if rules.times is None or not rules.times.seen:
        return {}
    seen = rules.times.seen
    return {key: seen[key] for message in messages if (key := message.id or "") in seen}


def _snapshots(messages: Sequence[BaseMessage]) -> list[dict[str, Any]] | None:
    """Return copies of the messages' fields; None where a copy does not equal its original."""
    try:
        copies = [{k: _copied(k, v) for k, v in vars(message).items()} for message in messages]
        return copies if copies == list(map(vars, messages)) else None
    except Exception:  # noqa: BLE001  # anything may stand in a message: locks, generators, cycles
        return None


def _copied(name: str, value: Any) -> Any:
    # An artifact is neither counted nor shown, and may be large.
    if value is None or type(value) is str or name == "artifact":
        return value
    return copy.deepcopy(value) if value else type(value)()


def parse_caches() -> Callable[..., ParseCache]:
    """Return a function from a conversation's key to its parse cache."""
    return lru_cache(maxsize=_MAX_PARSE_CACHES)(lambda *_key: ParseCache())
