"""What messages hold, object by object, while they say what is stored.

To compare thousands of messages with what is stored, field by field, takes as long as the rest of
a checkpoint. As long as they hold the very objects that they held when they said the same, only
what can change in these is left to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from gc import get_referents
from operator import attrgetter
from typing import Any, NamedTuple, TypeGuard

from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.copies import ATOMS, Changeable, Decoded, copied

_FIELDS = attrgetter("__dict__")
_EXTRAS = attrgetter("__pydantic_extra__")


class Imprint(NamedTuple):
    """What messages held when they said what is stored.

    Attributes:
        held: The values of all their fields.
        changeable: Those of the values that can change in themselves.
    """

    held: Sequence[Any]
    changeable: Changeable

    def fits(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether messages hold, and say, the same; False where that cannot be told."""
        empty, filled, said = self.changeable
        try:
            return (
                self.held == _held_by(messages)
                and not any(empty)
                and filled == said
                and not any(map(_EXTRAS, messages))
            )
        except (TypeError, ValueError):  # values that cannot be compared, such as arrays
            return False


def imprinted(
    messages: Sequence[BaseMessage], fields: Sequence[dict[str, Any] | None]
) -> Imprint | None:
    """Return the imprint of messages; None where they do not say what is stored.

    Args:
        messages: The messages.
        fields: What is stored of each; None where that is not all of it.
    """
    held = _held_by(messages)  # before the comparison: what changes meanwhile must not fit
    if not are_same(fields, messages):
        return None
    changeable = Changeable([], [], [])
    for message, stored in zip(messages, fields, strict=True):
        for name, value in message.__dict__.items():
            if type(value) not in ATOMS:
                changeable.note(value, stored[name])
    return Imprint(held, changeable)


def copies(decoded: Sequence[Decoded]) -> tuple[list[BaseMessage], Imprint]:
    """Return copies of messages, and their imprint."""
    changeable = Changeable([], [], [])
    made = [copied(one, changeable) for one in decoded]
    return made, Imprint(_held_by(made), changeable)


def are_same(
    fields: Sequence[dict[str, Any] | None], messages: Sequence[BaseMessage]
) -> TypeGuard[Sequence[dict[str, Any]]]:
    """Return whether all messages say what is stored of them, in one comparison."""
    try:
        return fields == list(map(_FIELDS, messages)) and not any(map(_EXTRAS, messages))
    except (TypeError, ValueError):  # values that cannot be compared, such as arrays
        return False


def _held_by(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return the values of all fields of messages, one after another."""
    # The values of a dict are what it refers to: one loop in C for all of them. Where a Python
    # should tell more or less than that, or in another order, nothing fits.
    return get_referents(*map(_FIELDS, messages))
