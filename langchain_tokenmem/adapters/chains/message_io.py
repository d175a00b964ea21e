"""Inputs and outputs of a chain as messages."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.errors import ConfigurationError


def ensure_id(message: BaseMessage) -> BaseMessage:
    """Return the message with an id; a new one where it has none."""
    return message if message.id else message.model_copy(update={"id": str(uuid4())})


def to_messages(value: Any, kind: type[HumanMessage | AIMessage]) -> list[BaseMessage]:
    """Return what was said as messages; a bare text is said by `kind`, other data as JSON.

    An input may name its messages as LangChain does: by texts, pairs of role and text, or dicts.
    """
    if isinstance(value, PromptValue):
        return value.to_messages()
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    if all(isinstance(item, BaseMessage) for item in several):
        return several
    if kind is HumanMessage and isinstance(value, (list, tuple, dict)):
        with suppress(ConfigurationError):  # other data than messages
            return list(as_messages(value))
    return [] if value is None else [kind(_as_text(value))]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return json.dumps(value, default=str, ensure_ascii=False)


@dataclass(frozen=True)
class MessageKeys:
    """Keys of the messages in dict inputs and outputs; without a name, as LangChain guesses.

    Attributes:
        input: Key of the new input.
        history: Key of the history; None where it stands in front of the input messages.
        output: Key of the answer.
    """

    input: str | None = None
    history: str | None = None
    output: str | None = None

    def of_input(self, value: dict[str, Any]) -> str:
        """Return the key of the input in `value`."""
        return self.input or _only_key(value, "input")

    def answer_in(self, output: Any) -> Any:
        """Return the answer in an output; the output itself where it names none."""
        if not isinstance(output, dict):
            return output
        return output.get(self.output or _only_key(output, "output"), output)


def _only_key(value: dict[str, Any], otherwise: str) -> str:
    return next(iter(value)) if len(value) == 1 else otherwise


def add_chunks(pieces: list[Any]) -> Any:
    """Return streamed pieces as one value: their sum where they add up, else the last one."""
    whole = None
    for piece in pieces:
        whole = piece if whole is None else _sum(whole, piece)
    return whole


def _sum(whole: Any, piece: Any) -> Any:
    try:
        return whole + piece
    except TypeError:
        return piece
