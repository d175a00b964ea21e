"""Views of odd conversations, and what providers would say to them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from formatters import body_of
from langchain_core.messages import BaseMessage
from message_rules import message_faults
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

WINDOWS = (256, 512, 1_000, 2_000, 4_000, 8_000, 32_000, 200_000)
PROFILES = ("anthropic", "bedrock", "common", "gemini", "mistral", "openai", "strict")
MEDIA = ("data", "base64", "url", "image_url", "file_data", "encrypted_content", "signature")
RESPONSES_ONLY = ("_call", "reasoning", "server_tool", "compaction")
LONGEST_MEDIA = 90


@dataclass(frozen=True)
class Seen:
    """One view, and what was found wrong with it."""

    seed: int
    profile: str
    window: int
    has_no_room: bool = False
    faults: tuple[str, ...] = ()
    over: int = 0
    tokens: int = 0


def views(seed: int, *, has_features: bool = False) -> Iterator[Seen]:
    """Play one conversation, its memory state with it, and look at each view on the way.

    Args:
        seed: Gives the conversation, the window and the options.
        has_features: Whether the memory has the options of `tests/features.py` too.
    """
    dice, other = random.Random(seed), random.Random(f"features {seed}")
    window, profile = dice.choice(WINDOWS), PROFILES[seed % len(PROFILES)]
    messages = conversation(dice, dice.choice([1, 2, 4, 8, 20]))
    if has_features:
        messages = with_work(other, messages)
    memory = TokenMemory(
        TokenBudget(context_window=window, **(budget_options(other) if has_features else {})),
        request=RequestRules(
            legality=profile,
            summary_role=dice.choice(["system", "human"]),
            dangling=dice.choice(["answer", "answer", "drop"]),
            pin_first=dice.random() < 0.8,
            **(rules(other) if has_features else {}),
        ),
        summarizer=ListSummarizer() if dice.random() < 0.9 else None,
        **(memory_options(other) if has_features else {}),
    )
    state = None
    steps = dice.randint(1, 6)
    for step in range(steps):
        shown = messages[: max(1, len(messages) * (step + 1) // steps)]
        options = request_options(other) if has_features else {}
        if has_features:
            state = with_features(other, state, shown)
        try:
            if dice.random() < 0.7:
                state, view = memory.compact_and_view(shown, state, **options)
            else:
                view = memory.view(shown, state, **options)
        except BudgetExceededError:
            yield Seen(seed, profile, window, has_no_room=True)
            continue
        yield looked_at(view, seed, profile, window)


def looked_at(view: View, seed: int, profile: str, window: int) -> Seen:
    """Return what a provider would say to a view, and its tokens counted from outside."""
    messages = view.messages
    if not any(message.type != "system" for message in messages):
        return Seen(seed, profile, window)  # there is nothing yet to answer
    wires = wires_of(profile, messages)
    faults = [] if wires else message_faults(messages, "common" if profile in FAULTS else profile)
    most = 0
    for wire in wires:
        try:
            body = body_of(wire, messages)
        except Exception as error:  # noqa: BLE001  # what cannot be formatted cannot be sent
            faults.append(f"{wire}: {type(error).__name__}: {str(error)[:150]}")
            continue
        faults += [f"{wire}: {fault}" for fault in FAULTS[wire](body)]
        most = max(most, tokens_of(body))
    over = max(0, most + view.usage.parts["tools"] - view.usage.max_tokens)
    return Seen(seed, profile, window, False, tuple(faults), over, most)


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


@cache
def _vocabulary() -> Any:
    return find_encoding("o200k_base")


def tokens_of(body: Mapping[str, Any]) -> int:
    """Return the o200k tokens of what a body says: every text, name, id and argument in it."""
    said = {key: body[key] for key in _SAID if key in body}
    return sum(len(_vocabulary().encode_ordinary(text)) for text in _texts(said))


_SAID = ("system", "system_instruction", "messages", "input", "contents")


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
