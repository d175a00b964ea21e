"""Pins in the state of a graph or an agent: their channel, updates of it, and its reducer."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from langchain_tokenmem.core.pins import PINS_CHANNEL, new_pin

PINS_KEY = PINS_CHANNEL
"""State key of the pins of a graph or an agent, by their ids."""

_ID = re.compile(r"pin_[0-9a-f]{8}")


def pin_update(text: str, *, unpin: bool = False) -> dict[str, Any]:
    """Return an update of a graph's state that pins a text, for a node or a `Command`.

    The pin is in every request from the next view on: after the system text, or in the first human
    message if the memory sees no system text. Several updates of one step are combined.

    Args:
        text: Text to pin; to unpin, the same text or the pin's id.
        unpin: Remove the pin.

    Raises:
        ConfigurationError: When the text is blank, or longer than 4,000 characters.

    Example:
        >>> from langgraph.types import Command
        >>> command = Command(update=pin_update("Answer in French."))
        >>> [pin["text"] for pin in command.update["token_memory_pins"].values()]
        ['Answer in French.']
    """
    pin = new_pin(text)
    if not unpin:
        return {PINS_KEY: {pin["id"]: pin}}
    return {PINS_KEY: {pin["text"] if _ID.fullmatch(pin["text"]) else pin["id"]: None}}


T = TypeVar("T")


def merge_by_name(old: dict[str, T] | None, new: dict[str, T] | None) -> dict[str, T]:
    """Return the entries of both, by the memory's name; the newer one where both have it.

    So several memories may write in one step without taking the others' place.
    """
    return {**(old or {}), **(new or {})}
