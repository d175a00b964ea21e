"""A list of messages is stored as it is, however it came out of the one before it."""

from __future__ import annotations

import copy
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from tests.doors.test_saver_field_failures import at, put

CHANGES = ("edit", "nest", "remove", "say", "shuffle", "cut", "read", "say much", "replace")


def changed(  # noqa: PLR0911  (one for each change)
    said: list[BaseMessage], how: str, dice: random.Random
) -> list[BaseMessage]:
    """Change messages in place, or the list that they stand in."""
    place, mark = dice.randrange(len(said)), str(dice.random())
    if how == "edit":
        said[place].content = mark
    elif how == "nest":
        said[place].additional_kwargs["mark"] = mark
    elif how == "remove" and len(said) > 1:
        return said[:place] + said[place + 1 :]
    elif how == "say":
        return [*said, AIMessage(mark, id=mark)]
    elif how == "shuffle":
        return dice.sample(said, len(said))
    elif how == "cut":
        return said[: place + 1]
    elif how == "say much":
        return [*said, *(HumanMessage(mark, id=f"{mark}{n}") for n in range(17))]
    elif how == "replace":
        other = said[place].model_copy(update={"content": mark})
        return [*said[:place], other, *said[place + 1 :]]
    return said


@given(
    st.lists(st.sampled_from(CHANGES), max_size=25),
    st.randoms(use_true_random=False),
    st.sampled_from([None, "a secret of the seals"]),
)
@settings(max_examples=40, deadline=None)
def test_a_list_is_stored_as_it_is(changes, dice, key):
    with TranscriptStore("sqlite://") as store:
        saver, parent = TokenMemorySaver(store, key=key), at()
        said = [HumanMessage("Hello", id=f"m{n}") for n in range(20)]
        for number, how in enumerate(["say", *changes]):
            if how == "read" and number:
                said = saver.get_tuple(parent).checkpoint["channel_values"]["messages"]
            said = changed(said, how, dice)
            wanted = copy.deepcopy(said)
            values = {"messages": said, "some": said[:5]}
            parent = put(saver, parent, values, f"{number:032}.5")
            for reader in (saver, TokenMemorySaver(store, key=key)):
                found = reader.get_tuple(parent).checkpoint["channel_values"]
                assert found == {"messages": wanted, "some": wanted[:5]}
