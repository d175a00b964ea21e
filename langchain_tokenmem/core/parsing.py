"""Parsing of messages into the groups of a request, repaired as the provider asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.message_times import TimePrefixes
from langchain_tokenmem.core.messages import groups, is_spoken, role_of
from langchain_tokenmem.core.profiles import LegalityProfile
from langchain_tokenmem.core.provider_format import fit_message
from langchain_tokenmem.core.repair import Dangling, RepairedGroup, repair_groups, says_nothing
from langchain_tokenmem.core.turn_memory import GroupOutcome, ReadOutcomes, no_outcomes


@dataclass(frozen=True, slots=True)
class ParseRules:
    """Settings that decide, beside the messages, how messages are parsed.

    Attributes:
        dangling: Treatment of a tool call without a result.
        profile: Requirements of the provider.
        times: Messages that show their time; None for none.
        outcomes: Reads the outcomes of groups.
    """

    dangling: Dangling
    profile: LegalityProfile
    times: TimePrefixes | None = None
    outcomes: ReadOutcomes = no_outcomes


@dataclass(frozen=True, slots=True)
class ParsedMessages:
    """A run of messages, parsed.

    Attributes:
        call_ids: Ids of all tool calls up to its end.
        system: The system messages in it.
        humans: Ids of its first and its last human message; empty where there is none.
        groups: The conversation in it, as providers accept it.
        repairs: Repairs that were made.
        adapted: Changes that were made for the provider.
        outcomes: What groups have changed, and what failed, by the id of each one's last message.
    """

    call_ids: frozenset[str] = frozenset()
    system: tuple[BaseMessage, ...] = ()
    humans: tuple[str | None, ...] = ()
    groups: tuple[RepairedGroup, ...] = ()
    repairs: tuple[str, ...] = ()
    adapted: tuple[str, ...] = ()
    outcomes: Mapping[str, GroupOutcome] = field(default_factory=dict)


def parse(
    messages: Sequence[BaseMessage],
    rules: ParseRules,
    *,
    earlier_calls: frozenset[str] = frozenset(),
) -> ParsedMessages:
    """Return a run of messages, parsed.

    Args:
        messages: The run, each message with an id.
        rules: What else decides.
        earlier_calls: Ids of the tool calls before it.
    """
    conversation = [*filter(is_spoken, messages)]
    humans = [m.id for m in conversation if role_of(m) == "human"]
    used = set(earlier_calls)
    found = groups(conversation)
    repaired, repairs = repair_groups(
        found, dangling=rules.dangling, used=used, profile=rules.profile
    )
    adapted: list[str] = []
    if rules.profile.fits:
        repaired = [_fit_group(group, rules.profile, adapted) for group in repaired]
    if rules.times is not None:
        repaired = rules.times.shown_on(repaired)
    return ParsedMessages(
        call_ids=frozenset(used),
        system=tuple(m for m in messages if role_of(m) == "system"),
        humans=(humans[0], humans[-1]) if humans else (),
        groups=tuple(repaired),
        repairs=tuple(repairs),
        adapted=tuple(adapted),
        outcomes=rules.outcomes(found),
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
