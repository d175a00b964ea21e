"""What messages hold, object by object, while they say what is stored.

To compare thousands of messages with what is stored, field by field, is about half of the work of
storing a checkpoint. As long as they hold the very objects that they held when they said the same,
only what can change in these is left to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from gc import get_referents
from operator import attrgetter, is_
from typing import Any, NamedTuple, TypeGuard

from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.copies import ATOMS, Changeable, Decoded, copied

_FIELDS = attrgetter("__dict__")
_EXTRAS = attrgetter("__pydantic_extra__")


class Imprint(NamedTuple):
    """What messages held when they said what is stored.

    Attributes:
        fields: The dicts of their fields, the very objects.
        held: The values in these, one after another.
        changeable: Those of the values that can change in themselves.
    """

    fields: Sequence[dict[str, Any]]
    held: Sequence[Any]
    changeable: Changeable

    def fits(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether messages hold, and say, the same; False where that cannot be told."""
        empty, filled, said = self.changeable
        try:
            return (
                all(map(is_, self.fields, map(_FIELDS, messages)))
                and self.held == _values_of(self.fields)
                and not any(empty)
                and filled == said
                and not any(map(_EXTRAS, messages))
            )
        except (TypeError, ValueError, RecursionError):  # what cannot be compared, such as arrays
            return False


def imprinted(
    messages: Sequence[BaseMessage], stored: Sequence[dict[str, Any] | None]
) -> Imprint | None:
    """Return the imprint of messages; None where they do not say what is stored.

    Args:
        messages: The messages.
        stored: The stored fields of each; None where that is not all it said.
    """
    fields = list(map(_FIELDS, messages))
    # All is made of one look: what another thread changes meanwhile must not fit.
    seen = [one.copy() for one in fields]
    if not (_are_equal(stored, seen) and not any(map(_EXTRAS, messages))):
        return None
    changeable = Changeable([], [], [])
    for one, said in zip(seen, stored, strict=True):
        for name, value in one.items():
            if type(value) not in ATOMS:
                changeable.note(value, said[name])
    return _imprint(fields, _values_of(seen), changeable)


def copies(decoded: Sequence[Decoded]) -> tuple[list[BaseMessage], Imprint | None]:
    """Return copies of messages, and their imprint; None where their fields are not all."""
    changeable = Changeable([], [], [])
    made = [copied(one, changeable) for one in decoded]
    if any(one.fields is None for one in decoded):
        return made, None
    fields = list(map(_FIELDS, made))
    return made, _imprint(fields, _values_of(fields), changeable)


def are_same(stored: Sequence[dict[str, Any] | None], messages: Sequence[BaseMessage]) -> bool:
    """Return whether all messages say what is stored of them, in one comparison."""
    return _are_equal(stored, list(map(_FIELDS, messages))) and not any(map(_EXTRAS, messages))


def _imprint(
    fields: Sequence[dict[str, Any]], held: Sequence[Any], changeable: Changeable
) -> Imprint | None:
    # A Python that does not tell all values of some dict would not tell their changes either.
    is_whole = len(held) == sum(map(len, fields))
    return Imprint(fields, held, changeable) if is_whole else None


def _are_equal(
    stored: Sequence[dict[str, Any] | None], fields: Sequence[dict[str, Any]]
) -> TypeGuard[Sequence[dict[str, Any]]]:
    try:
        return stored == fields
    except (TypeError, ValueError):  # values that cannot be compared, such as arrays
        return False


def _values_of(fields: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the values of dicts, one after another: what they refer to, in one loop in C."""
    return get_referents(*fields)
