"""A list of messages is stored as it is, however it came out of the one before it."""

from __future__ import annotations

import copy
import random
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.storage import checkpoints, codec
from langchain_tokenmem.storage.codec import message_digest
from tests.adapters.checkpoints.test_saver_robustness import at, put

CHANGES = (
    *("edit", "nest", "remove", "say", "shuffle", "cut", "read", "say much", "replace"),
    *("rebuild", "more", "less", "forget its id", "deepen", "empty", "same", "begin anew"),
    *("say again", "grow back"),
)
STEPS = [*((one,) for one in CHANGES), ("read", "cut", "grow back"), ("cut", "grow back")]
"""Changes that seldom follow one another by chance stand together."""
SIZE = 24


def changed(  # noqa: C901, PLR0911, PLR0912  (one for each change)
    said: list[BaseMessage], how: str, dice: random.Random
) -> list[BaseMessage]:
    """Change messages in place, or the list that they stand in."""
    place, mark = dice.randrange(len(said)), str(dice.random())
    if how == "edit":
        said[place].content = mark
    elif how == "nest":
        said[place].additional_kwargs["mark"] = mark
    elif how == "more":
        said[place].mark = mark
    elif how == "less":
        for message in said:
            (message.model_extra or {}).clear()
    elif how == "deepen":
        said[place].content = [*said[place].content_blocks, {"type": "text", "text": mark}]
        said[place - 1].additional_kwargs.setdefault("deep", [{}])[0][mark] = [mark]
    elif how == "empty":
        said[place].additional_kwargs.clear()
    elif how == "same":
        said[place].additional_kwargs = dict(said[place].additional_kwargs)
    elif how == "begin anew":
        said[place].__init__(content=said[place].content, id=said[place].id, mark=mark)
    elif how == "forget its id":
        said[place].id = None
    elif how == "rebuild":
        return [message.model_copy(deep=True) for message in said]
    elif how == "remove" and len(said) > 1:
        return said[:place] + said[place + 1 :]
    elif how == "say":
        return [*said, AIMessage(mark, id=mark)]
    elif how == "shuffle":
        return dice.sample(said, len(said))
    elif how == "cut":
        return said[: place + 1]
    elif how == "say again":
        return [*said, *(one.model_copy(update={"id": None}) for one in said[place:][:9])]
    elif how == "say much":
        return [*said, *(HumanMessage(mark, id=f"{mark}{n}") for n in range(17))]
    elif how == "replace":
        other = said[place].model_copy(update={"content": mark})
        return [*said[:place], other, *said[place + 1 :]]
    return said


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(STEPS), max_size=15),
    st.randoms(use_true_random=False),
)
def test_a_list_is_stored_as_it_is(steps, dice):
    with TranscriptStore("sqlite://") as store:
        saver, parent = TokenMemorySaver(store), at()
        names = [f"m{n}" for n in range(20)] if dice.random() < 0.5 else [None] * 20
        said = longest = [HumanMessage("Hello", id=name) for name in names]
        for number, how in enumerate(["say", *chain.from_iterable(steps)]):
            if how == "read" and number:
                said = saver.get_tuple(parent).checkpoint["channel_values"]["messages"]
            elif how == "grow back":
                said = [*said, *copy.deepcopy(longest[len(said) :])]
            said = changed(said, how, dice)
            wanted = copy.deepcopy(said)
            longest = max(longest, wanted, key=len)
            values = {"messages": said, "some": said[:5]}
            parent = put(saver, parent, values, f"{number:032}.5")
            for reader in (saver, TokenMemorySaver(store)):
                found = reader.get_tuple(parent).checkpoint["channel_values"]
                assert found == {"messages": wanted, "some": wanted[:5]}


@pytest.mark.slow
@pytest.mark.parametrize("cut", [0, 16, 20, SIZE])
def test_an_edit_that_is_undone_is_stored_too(cut):
    with TranscriptStore("sqlite://") as store:
        saver, parent = TokenMemorySaver(store), at()
        said = [HumanMessage("Hello", id=f"m{number}") for number in range(SIZE)]
        first = said[-1].content
        steps = [(said, first)] * 3 + [(said[:cut], first), (said, "Bye"), (said, first)]
        for number, (chat, words) in enumerate(steps):
            said[-1].content = words
            parent = put(saver, parent, {"messages": chat}, f"{number:032}.5")
            found = TokenMemorySaver(store).get_tuple(parent).checkpoint["channel_values"]
            assert found == {"messages": chat}


def test_what_is_taken_away_from_a_message_that_was_given_out_is_noticed():
    with TranscriptStore("sqlite://") as store:
        saver = TokenMemorySaver(store)
        said = [HumanMessage("Hello", id=f"m{number}") for number in range(SIZE)]
        said[4].mark = "more"
        parent = put(saver, at(), {"messages": said})
        said = saver.get_tuple(parent).checkpoint["channel_values"]["messages"]
        del said[4].mark
        parent = put(saver, parent, {"messages": said}, f"{2:032}.5")
        found = TokenMemorySaver(store).get_tuple(parent).checkpoint["channel_values"]
        assert found == {"messages": said}


def test_a_change_while_a_message_is_stored_is_noticed_when_it_is_undone(monkeypatch):
    with TranscriptStore("sqlite://") as store:
        saver = TokenMemorySaver(store)
        said = [HumanMessage("Hello", id=f"m{number}") for number in range(SIZE)]
        parent = put(saver, at(), {"messages": said})
        own = checkpoints.own_copy

        def late(codec, message):
            message.content = "meanwhile"
            return own(codec, message)

        monkeypatch.setattr(checkpoints, "own_copy", late)
        said[4].content = "edited"
        parent = put(saver, parent, {"messages": said}, f"{2:032}.5")
        monkeypatch.setattr(checkpoints, "own_copy", own)
        assert said[4].content == "meanwhile"
        said[4].content = "edited"
        parent = put(saver, parent, {"messages": said}, f"{3:032}.5")
        found = TokenMemorySaver(store).get_tuple(parent).checkpoint["channel_values"]
        assert found == {"messages": said}


def test_a_list_that_was_built_anew_is_known_by_its_ids(monkeypatch):
    digests = []

    def noted(message, key=b""):
        digests.append(message)
        return message_digest(message, key)

    monkeypatch.setattr(codec, "message_digest", noted)
    with TranscriptStore("sqlite://") as store:
        saver, parent, said = TokenMemorySaver(store), at(), []
        for number in range(20):
            said = [message.model_copy(deep=True) for message in said]
            said += [HumanMessage(f"{number}", id=f"m{number}")]
            parent = put(saver, parent, {"messages": said}, f"{number:032}.5")
        assert [message.id for message in digests] == [message.id for message in said]
