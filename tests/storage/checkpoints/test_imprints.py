"""An imprint fits messages only while they say what is stored, whatever happened meanwhile."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langchain_tokenmem.storage.checkpoints.copies import fresh, prepared
from langchain_tokenmem.storage.checkpoints.imprints import copies, imprinted


class Meddler:
    """Stands in a message, and does something when it is compared: another thread, for a test."""

    def __init__(self, does: Any = lambda: None) -> None:
        self.does = does

    def __eq__(self, other: object) -> bool:
        self.does()
        return isinstance(other, Meddler)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: object) -> Meddler:
        return Meddler(self.does)


def message(**fields: Any) -> AIMessage:
    return AIMessage("Hello", **{"id": "m", "additional_kwargs": {"a": 1}, **fields})


def stored_of(*messages: AIMessage) -> list[Any]:
    return [prepared(fresh(one)).fields for one in messages]


def test_what_is_emptied_while_it_is_compared_does_not_fit():
    found = message()
    meddler = message(additional_kwargs={"m": Meddler(found.additional_kwargs.clear)})
    imprint = imprinted([found, meddler], stored_of(found, meddler))
    assert found.additional_kwargs == {}
    assert imprint is not None
    assert not imprint.fits([found, meddler])


def test_what_is_replaced_while_it_is_compared_and_put_back_does_not_fit():
    first: dict[str, Any] = {}

    def replaced(one: AIMessage) -> None:
        if "was" not in first:
            first["was"], one.additional_kwargs = one.additional_kwargs, {"a": 1}

    found = message()
    meddler = message(additional_kwargs={"m": Meddler(lambda: replaced(found))})
    imprint = imprinted([found, meddler], stored_of(found, meddler))
    assert imprint is not None
    found.additional_kwargs = first["was"]
    assert imprint.fits([found, meddler])
    found.additional_kwargs["b"] = 2
    assert not imprint.fits([found, meddler])


def test_other_names_for_the_same_values_do_not_fit():
    found = message()
    imprint = imprinted([found], stored_of(found))
    assert imprint is not None
    assert imprint.fits([found])
    names = {"additional_kwargs": "response_metadata", "response_metadata": "additional_kwargs"}
    fields = {names.get(name, name): value for name, value in found.__dict__.items()}
    found.__setstate__({**found.__getstate__(), "__dict__": fields})
    assert not imprint.fits([found])


def test_other_fields_that_say_the_same_fit_until_they_say_another_thing():
    found = message()
    imprint = imprinted([found], stored_of(found))
    assert imprint is not None
    found.__setstate__({**found.__getstate__(), "__dict__": deepcopy(found.__dict__)})
    assert imprint.fits([found])
    found.additional_kwargs["a"] = 2
    assert not imprint.fits([found])
    found.additional_kwargs["a"] = 1
    assert imprint.fits([found])
    found.content = "Goodbye"
    assert not imprint.fits([found])


@pytest.mark.parametrize("is_given", [False, True])
def test_extra_fields_that_come_later_do_not_fit(is_given):
    found = message()
    imprint = imprinted([found], stored_of(found))
    if is_given:
        [found], imprint = copies([prepared(found)])
    assert imprint is not None
    found.mark = "x"
    assert not imprint.fits([found])
    found.model_extra.clear()
    assert imprint.fits([found])
    object.__setattr__(found, "__pydantic_extra__", {})
    assert imprint.fits([found])
    found.mark = "x"
    assert not imprint.fits([found])


def test_messages_with_more_than_their_fields_have_no_imprint():
    found = message(mark="x")
    assert imprinted([found], stored_of(found)) is None
    made, imprint = copies([prepared(fresh(found))])
    assert made == [found]
    assert imprint is None


def test_what_holds_itself_does_not_fit():
    found = message()
    imprint = imprinted([found], stored_of(found))
    assert imprint is not None
    for _ in range(2):
        endless: dict[str, Any] = {}
        endless["a"] = endless
        found.additional_kwargs = endless
        assert not imprint.fits([found])
    circular = imprint._replace(held=list(found.__dict__.values()))
    other: dict[str, Any] = {}
    other["a"] = other
    found.additional_kwargs = other
    assert not circular.fits([found])


@pytest.mark.parametrize("count", [1, 3])
def test_copies_fit_until_they_are_changed(count):
    made, imprint = copies([prepared(message(id=f"m{number}")) for number in range(count)])
    assert imprint is not None
    assert imprint.fits(made)
    made[-1].tool_calls.append({"name": "f", "args": {}, "id": "1"})
    assert not imprint.fits(made)
