"""Repair of broken histories: unanswered calls, orphaned results, repeated ids.

The transcript is not changed; only the view is repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolMessage,
)

from langchain_tokenmem.core.messages import (
    Group,
    call_ids,
    calls_of,
    inserted,
    is_blank_block,
    is_reasoning_block,
    result_ids,
    role_of,
    same_objects,
    text_of,
    transcribed,
    well_formed_message,
)
from langchain_tokenmem.core.profiles import LegalityProfile
from langchain_tokenmem.core.tool_calls import (
    legal_call_id,
    uniform_calls,
    with_call_ids,
    with_calls,
)

Dangling = Literal["answer", "drop"]
"""Treatment of a tool call without a result: answer it as interrupted, or leave its whole group
out of the view."""

INTERRUPTED = "[interrupted: no result of this tool call was recorded]"
FIRST_HUMAN_MESSAGE = inserted(
    HumanMessage("[The conversation begins with the assistant.]", id="tm-opening")
)
"""First message if the conversation does not begin with a human one: Gemini, Anthropic and strict
templates refuse a list that begins with the assistant."""
PINS_ALONE = (
    inserted(HumanMessage("", id="tm-opening")),
    inserted(AIMessage("Noted.", id="tm-noted")),
)
"""Represent a conversation that has not begun: the first one carries the pins. The input of a
chain, a human message, follows the second one."""


@dataclass(frozen=True, slots=True)
class RepairedGroup:
    """A group as a provider accepts it.

    Attributes:
        source: The group in the transcript.
        messages: The messages that are shown; empty if none of them may be shown.
    """

    source: Group
    messages: tuple[BaseMessage, ...]

    def showing(self, messages: Sequence[BaseMessage]) -> RepairedGroup:
        """Return the group showing other messages; itself if they are the same objects."""
        same = same_objects(messages, self.messages)
        return self if same else RepairedGroup(self.source, tuple(messages))


def source_messages(groups: Iterable[RepairedGroup]) -> Iterator[BaseMessage]:
    """Yield the messages of groups as they are in the transcript."""
    for group in groups:
        yield from group.source.messages


def place_after(groups: Sequence[RepairedGroup], key: str | None) -> int:
    """Return the index after the last group that has the message with an id; 0 if none has it."""
    for place in range(len(groups), 0, -1):
        if any(message.id == key for message in groups[place - 1].source.messages):
            return place
    return 0


@dataclass(frozen=True, slots=True)
class Repair:
    """Repairs the groups of a conversation, one after the other.

    Attributes:
        dangling: Treatment of calls without a result.
        profile: Requirements of the provider.
        used: Ids of earlier tool calls.
        repairs: What was repaired, one sentence each.
    """

    dangling: Dangling
    profile: LegalityProfile
    used: set[str] = field(default_factory=set)
    repairs: list[str] = field(default_factory=list)

    def repaired(self, group: Group) -> RepairedGroup:
        """Return a group in the form that providers accept; a valid one unchanged."""
        shown = [*map(well_formed_message, self._shown(group))]
        return RepairedGroup(group, group.messages).showing(shown)

    def _shown(self, group: Group) -> tuple[BaseMessage, ...]:
        """Return the shown messages of a group."""
        first = group.messages[0]
        if len(group.messages) == 1 and role_of(first) == "human" and not result_ids(first):
            return group.messages
        shown: list[BaseMessage] = []
        others: list[BaseMessage] = []
        messages = uniform_calls(group.messages, self.profile)
        results = self._first_results(messages)
        for message in messages:
            role = role_of(message)
            if role == "ai":
                shown += self._call(message, results)
            elif role == "human":
                others.append(message)
            elif role == "tool" and not isinstance(message, ToolMessage):
                self.repairs.append(
                    f"Function result {message.id} has no call; left out of the view."
                )
        self.repairs.extend(
            f"Tool result {message.id} has no call; left out of the view."
            for message in results.values()
        )
        return (*shown, *others)

    def _first_results(self, messages: Iterable[BaseMessage]) -> dict[str, ToolMessage]:
        results: dict[str, ToolMessage] = {}
        for message in messages:
            if not isinstance(message, ToolMessage):
                continue
            key = message.tool_call_id
            if key in results:
                self.repairs.append(f"Tool call {key} has a second result, {message.id}; left out.")
                continue
            results[key] = message
        return results

    def _call(self, message: BaseMessage, results: dict[str, ToolMessage]) -> list[BaseMessage]:
        """Return an AI message followed by the results of its calls, taken from `results`."""
        if not isinstance(message, AIMessage) or not calls_of(message):
            if has_no_content(message):
                self.repairs.append(
                    f"Assistant message {message.id} is empty; left out of the view."
                )
                return []
            if isinstance(message, AIMessage) and not self.profile.fits:
                return [transcribed(message)]  # text is what every provider takes
            return [message]
        repaired = _without_repeated_calls(message, self.repairs)
        keys = call_ids(repaired)
        answers = [results.pop(key, None) for key in keys]
        if self.dangling == "drop" and None in answers:
            self.repairs.append(
                f"Assistant message {message.id} has open tool calls; left out of the view."
            )
            return []
        if None in answers:
            self.repairs.append(
                f"Tool calls of {message.id} have no result; answered as interrupted."
            )
        full = [
            answer or _interrupted_result(repaired, key)
            for key, answer in zip(keys, answers, strict=True)
        ]
        return self._with_legal_ids(repaired, dict(zip(keys, full, strict=True)))

    def _with_legal_ids(
        self, message: AIMessage, answers: dict[str, ToolMessage]
    ) -> list[BaseMessage]:
        """Return a call and its results, with new ids that the provider accepts."""
        renamed: dict[str, str] = {}
        if self.used & answers.keys():
            self.repairs.append(
                f"Tool call ids of {message.id} were used before; renamed in the view."
            )
        for key in answers:
            fresh = legal_call_id(key, self.used, self.profile.call_id)
            self.used.add(fresh)
            if fresh != key:
                renamed[key] = fresh
        if not renamed:
            return [message, *answers.values()]
        results = [
            answer.model_copy(update={"tool_call_id": renamed.get(key, key)})
            for key, answer in answers.items()
        ]
        return [with_call_ids(message, renamed), *results]


def has_no_content(message: BaseMessage) -> bool:
    """Return whether a message has neither text nor another visible part."""
    if isinstance(message.content, str):
        return not text_of(message).strip()
    return all(is_blank_block(block) or is_reasoning_block(block) for block in message.content)


def says_nothing(message: BaseMessage) -> bool:
    """Return whether an assistant message has neither content nor calls."""
    return isinstance(message, AIMessage) and not calls_of(message) and has_no_content(message)


def _interrupted_result(message: AIMessage, key: str) -> ToolMessage:
    names = {call["id"]: call["name"] for call in message.tool_calls}
    result = ToolMessage(INTERRUPTED, tool_call_id=key, name=names.get(key), status="error")
    result.id = f"{message.id}~{key}"
    return cast("ToolMessage", inserted(result))


def _without_repeated_calls(message: AIMessage, repairs: list[str]) -> AIMessage:
    """Return the message with only one call per id."""
    valid = list({call["id"]: call for call in message.tool_calls}.values())
    known = {call["id"] for call in valid}
    invalid: list[InvalidToolCall] = [
        call
        for call in {call["id"]: call for call in message.invalid_tool_calls}.values()
        if call["id"] not in known
    ]
    if len(valid) == len(message.tool_calls) and len(invalid) == len(message.invalid_tool_calls):
        return message
    repairs.append(f"Tool calls of {message.id} repeat an id; left out of the view.")
    return with_calls(message, valid, invalid)
