"""What messages hold, object by object, while they say what is stored.

To compare thousands of messages with what is stored, field by field, is much of the work of
storing a checkpoint. As long as they hold the very objects that they held when they said the same,
only what can change in these is left to be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        parts: What they are made of, one after another: fields, extra and private ones, type.
        fields: The dicts of their fields, the very objects (a tuple is not copied for a call).
        held: The values in these, one after another.
        changeable: Those of the values that can change in themselves, and the extra fields.
    """

    parts: list[Any]
    fields: tuple[dict[str, Any], ...]
    held: list[Any]
    changeable: Changeable

    @property
    def size(self) -> int:
        """How many messages they are."""
        return len(self.fields)

    def fits(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether the messages hold, and say, the same; False where that cannot be told.

        Args:
            messages: The very objects that the imprint was made of.
        """
        empty, filled, said = self.changeable
        for objects in (self.parts, self.held):
            _fetch(objects)
        try:
            # A list compares what is not the same object by what it says: so other fields that
            # say the same do fit, until they, which are no part of the imprint, say another thing.
            return (
                self.parts == get_referents(*messages)
                and self.held == get_referents(*self.fields)
                and not any(empty)
                and filled == said
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
    fields, extras = tuple(map(_FIELDS, messages)), list(map(_EXTRAS, messages))
    # All is made of one look: what another thread changes meanwhile must not fit.
    seen = [one.copy() for one in fields]
    if not (_are_equal(stored, seen) and not any(extras)):
        return None
    changeable = Changeable([*extras], [], [])
    for one, said in zip(seen, stored, strict=True):
        for name, value in one.items():
            if type(value) not in ATOMS:
                changeable.note(value, said[name])
    found = Imprint(get_referents(*messages), fields, get_referents(*seen), changeable)
    return found if _has_all(found, [*fields, *extras], found.parts) else None


def copies(decoded: Sequence[Decoded]) -> tuple[list[BaseMessage], Imprint | None]:
    """Return copies of messages, and their imprint; None where their fields are not all."""
    changeable = Changeable([], [], [])
    made = [copied(one, changeable) for one in decoded]
    if any(one.fields is None for one in decoded):
        return made, None
    fields, one = tuple(map(_FIELDS, made)), made[0]
    found = Imprint(get_referents(*made), fields, get_referents(*fields), changeable)
    # Nobody has them yet: what is told of one is told of all.
    is_whole = _has_all(found, [_FIELDS(one), _EXTRAS(one)], get_referents(one))
    return made, found if is_whole else None


def are_same(stored: Sequence[dict[str, Any] | None], messages: Sequence[BaseMessage]) -> bool:
    """Return whether all messages say what is stored of them, in one comparison."""
    return _are_equal(stored, list(map(_FIELDS, messages))) and not any(map(_EXTRAS, messages))


def _fetch(objects: list[Any]) -> None:
    """Bring objects into the processor's cache.

    To look at thousands of them one after another is to wait for the memory at each. A copy of the
    list, which counts one reference more to each, has the processor ask for many at a time.
    """
    objects.copy()


def _has_all(imprint: Imprint, parts: Iterable[Any], told: Iterable[Any]) -> bool:
    """Return whether Python tells all: what it does not tell may change and still fit."""
    return {*map(id, told)}.issuperset(map(id, parts)) and len(imprint.held) == sum(
        map(len, imprint.fields)
    )


def _are_equal(
    stored: Sequence[dict[str, Any] | None], fields: Sequence[dict[str, Any]]
) -> TypeGuard[Sequence[dict[str, Any]]]:
    try:
        return stored == fields
    except (TypeError, ValueError):  # values that cannot be compared, such as arrays
        return False
