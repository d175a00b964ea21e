"""Odd conversations by the thousand: no view that a provider refuses, none over its limit.

Each view is formatted by LangChain's own integrations, and the body that would leave is checked by
`wire_rules.py` and counted with o200k. In half of the conversations the memory has the options of
`tests/features.py` too. `make nightly` looks at 20,000 views; otherwise at as many as a minute
allows, and at least at a few hundred.
"""

import logging
import os
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from formatters import body_of
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from odd_messages import conversation
from wire_rules import FAULTS

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.tokens.encodings import find_encoding
from langchain_tokenmem.types import RequestRules, View
from tests.fakes import ListSummarizer
from tests.features import (
    budget_options,
    memory_options,
    request_options,
    rules,
    with_features,
    with_work,
)
from tests.providers import (
    RefusedError,
    body_after_system,
    check_bedrock,
    check_mistral,
    check_results,
)

IS_WHOLE = os.environ.get("TOKENMEM_PEERS") == "all"
PARTS = 2
VIEWS = (20_000 if IS_WHOLE else 500) // PARTS
LEAST = VIEWS if IS_WHOLE else 150
SECONDS = 8 * 3_600.0 if IS_WHOLE else 30.0
SHOWN = 10
WINDOWS = (256, 512, 1_000, 2_000, 4_000, 8_000, 32_000, 200_000)
PROFILES = ("anthropic", "bedrock", "common", "gemini", "mistral", "openai", "strict")
MEDIA = ("data", "base64", "url", "image_url", "file_data", "encrypted_content", "signature")
RESPONSES_ONLY = ("_call", "reasoning", "server_tool", "compaction")
LONGEST_MEDIA = 90
SAID = ("system", "system_instruction", "messages", "input", "contents")
O200K: Any = find_encoding("o200k_base")


@dataclass(frozen=True)
class Seen:
    """One view, and what is wrong with it."""

    seed: int
    profile: str
    window: int
    has_room: bool = True
    faults: tuple[str, ...] = ()


def has_features(seed: int) -> bool:
    """Return whether a seed has the features; each part sees each profile with and without."""
    return seed // (PARTS * len(PROFILES)) % 2 == 1


def views(seed: int) -> Iterator[Seen]:
    """Play one conversation, its memory state with it, and look at each view on the way."""
    dice, other = random.Random(seed), random.Random(f"features {seed}")
    window, profile = dice.choice(WINDOWS), PROFILES[seed % len(PROFILES)]
    messages = conversation(dice, dice.choice([1, 2, 4, 8, 20]))
    featured = has_features(seed)
    if featured:
        messages = with_work(other, messages)
    memory = TokenMemory(
        TokenBudget(context_window=window, **(budget_options(other) if featured else {})),
        request=RequestRules(
            legality=profile,
            summary_role=dice.choice(["system", "human"]),
            dangling=dice.choice(["answer", "answer", "drop"]),
            pin_first=dice.random() < 0.8,
            **(rules(other) if featured else {}),
        ),
        summarizer=ListSummarizer() if dice.random() < 0.9 else None,
        **(memory_options(other) if featured else {}),
    )
    state = None
    steps = dice.randint(1, 6)
    for step in range(steps):
        shown = messages[: max(1, len(messages) * (step + 1) // steps)]
        options = request_options(other) if featured else {}
        if featured:
            state = with_features(other, state, shown)
        try:
            if dice.random() < 0.7:
                state, view = memory.compact_and_view(shown, state, **options)
            else:
                view = memory.view(shown, state, **options)
        except BudgetExceededError:
            yield Seen(seed, profile, window, has_room=False)
            continue
        yield Seen(seed, profile, window, faults=tuple(faults_of(view, profile)))


BEDROCK_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CALLS = {"tool_use", "tool_call", "function_call"}  # rebuilt from `tool_calls` by each integration
THOUGHTS = {"thinking", "reasoning", "reasoning_content", "redacted_thinking"}
BLOCKS = {
    # langchain-aws, _lc_content_to_bedrock
    "bedrock": {"text", "image", "image_url", "document", "file", "video", "audio", *THOUGHTS},
    # docs.mistral.ai: chat completion, content chunks
    "mistral": {"text", "image_url", *THOUGHTS},
    # chat templates take text, and pictures where the model sees
    "strict": {"text", "image_url", "image", *THOUGHTS},
}


def check_common(messages: list[BaseMessage]) -> None:
    """Refuse what any provider refuses; a message with a role as text may come first."""
    body = body_after_system(messages, most_system=1)
    check_results(body)
    if body[0].type not in {"human", "chat"}:
        raise RefusedError("the first message is not a human one")


def message_faults(messages: Sequence[BaseMessage], profile: str) -> list[str]:
    """Return what would be refused where no integration of the provider formats the messages.

    The order of roles and the pairing of calls are checked by `tests/providers.py`, written from
    the same sources; here it is the blocks, and what `toolUse` may hold.
    """
    checks = {"bedrock": check_bedrock, "mistral": check_mistral, "strict": check_mistral}
    check = checks.get(profile, check_common)
    try:
        check(list(messages))
    except RefusedError as error:
        return [str(error)]
    if profile not in BLOCKS:
        return []
    faults = []
    for message in messages:
        if type(message) not in {HumanMessage, AIMessage, ToolMessage} and message.type != "system":
            faults.append(f"a message of type {type(message).__name__}")
        allowed = BLOCKS[profile] | (CALLS if message.type == "ai" else set())
        content = [] if isinstance(message.content, str) else message.content
        kinds = ["text" if isinstance(block, str) else block.get("type") for block in content]
        faults += [f"{message.type}: content block {kind!r}" for kind in {*kinds} - allowed]
        if isinstance(message, AIMessage) and profile != "strict":
            faults += [f"arguments are no object: {call}" for call in message.invalid_tool_calls]
            values = [v for call in message.tool_calls for v in (call["id"], call["name"])]
            wrong = [value for value in values if not BEDROCK_ID.fullmatch(value or "")]
            faults += [f"toolUse: {value!r} does not match the pattern" for value in wrong]
    return faults


def faults_of(view: View, profile: str) -> list[str]:
    """Return what a provider would say to a view, and whether it is over its limit."""
    messages = view.messages
    if not any(message.type != "system" for message in messages):
        return []  # there is nothing yet to answer
    wires = wires_of(profile, messages)
    faults = [] if wires else message_faults(messages, profile)
    for wire in wires:
        try:
            body = body_of(wire, messages)
        except Exception as error:  # noqa: BLE001  # what cannot be formatted cannot be sent
            faults.append(f"{wire}: {type(error).__name__}: {str(error)[:150]}")
            continue
        faults += [f"{wire}: {fault}" for fault in FAULTS[wire](body)]
        over = tokens_of(body) + view.usage.parts["tools"] - view.usage.max_tokens
        faults += [f"{wire}: {over} tokens over"] * (over > 0)
    return faults


def wires_of(profile: str, messages: Sequence[BaseMessage]) -> list[str]:
    """Return the APIs by which a request of this profile leaves."""
    if profile != "openai":
        return [profile] if profile in FAULTS else []
    kinds = {
        str(block.get("type"))
        for message in messages
        if isinstance(message.content, list)
        for block in message.content
        if isinstance(block, dict)
    }
    by_responses = any(part in kind for kind in kinds for part in RESPONSES_ONLY)
    by_chat = "input_audio" in kinds
    return ["openai"] * (not by_responses) + ["responses"] * (not by_chat)


def tokens_of(body: Mapping[str, Any]) -> int:
    """Return the o200k tokens of what a body says: every text, name, id and argument in it."""
    said = {key: body[key] for key in SAID if key in body}
    return sum(len(O200K.encode_ordinary(text)) for text in _texts(said))


def _texts(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name != "type":  # a word of the format, not of the request
                yield from _texts(part, name)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part, key)
    elif value is not None and not (key in MEDIA and len(str(value)) > LONGEST_MEDIA):
        yield str(value)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_view_of_an_odd_conversation_is_refused_or_over_its_limit(part: int) -> None:
    logging.disable(logging.WARNING)
    seen: list[Seen] = []
    seed, end = part, time.monotonic() + SECONDS
    try:
        while len(seen) < VIEWS and (len(seen) < LEAST or time.monotonic() < end):
            seen += views(seed)
            seed += PARTS
    finally:
        logging.disable(logging.NOTSET)
    wrong = [one for one in seen if one.faults]
    without_room = sum(not one.has_room for one in seen)
    print(f"{len(seen)} views; no room for {without_room}")
    shown = [f"{len(wrong)} of {len(seen)} views", *map(str, wrong[:SHOWN])]
    assert not wrong, "\n".join(shown)
    assert {one.profile for one in seen} == {*PROFILES}
    assert {has_features(one.seed) for one in seen} == {False, True}
    assert without_room < 0.01 * len(seen)
    if IS_WHOLE:
        assert {one.window for one in seen} == {*WINDOWS}


CALL = AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": "c1"}], id="a")
RESULT = ToolMessage("done", tool_call_id="c1", id="t")
GO = HumanMessage("Go.", id="h")


@pytest.mark.parametrize("wire", sorted(FAULTS))
def test_the_rules_accept_a_plain_request_and_refuse_a_call_without_its_result(wire: str) -> None:
    assert FAULTS[wire](body_of(wire, [GO, CALL, RESULT])) == []
    assert FAULTS[wire](body_of(wire, [GO, CALL, GO])) != []
    assert FAULTS[wire](body_of(wire, [GO, CALL])) != []
