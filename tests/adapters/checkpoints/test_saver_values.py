"""Values and messages come back as they were, in any process that knows their types, or an error.

Messages may be changed in place into what no model would check: they are taken as `InMemorySaver`
takes them.
"""

import copy
import enum
import os
import random
import re
import sqlite3
import sys
import threading
from collections import namedtuple
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.agents import AgentAction
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    ToolMessageChunk,
)
from langchain_core.outputs import Generation
from langchain_core.prompt_values import StringPromptValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from tests.adapters.integrations import at, put, read, texts, thread


@pytest.fixture
def saver(store):
    return TokenMemorySaver(store)


# Types of states


class Weather(BaseModel):
    """The weather in a place."""

    place: str
    degrees: int


@dataclass
class Plan:
    steps: list[str] = field(default_factory=list)
    weather: Weather | None = None


class Mood(enum.Enum):
    GOOD = "good"


class Point(NamedTuple):
    x: int
    y: int


OldPoint = namedtuple("OldPoint", ["x"])  # noqa: PYI024  states have them
LISBON = Weather(place="Lisbon", degrees=21)
VALUES: list[Any] = [
    LISBON,
    Plan(["go"], LISBON),
    Mood.GOOD,
    Point(1, 2),
    OldPoint(1),
    [{"deep": [Mood.GOOD, Plan()]}],
    AgentAction("search", "words", "log"),
    Document("text", metadata={"a": 1}),
    StringPromptValue(text="Say it."),
    Generation(text="said"),
]


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_of_a_states_usual_types_is_read_back(store, saver, value):
    config = put(saver, at(), "1", {"value": value})
    saver.put_writes(config, [("value", value)], "task")
    found = TokenMemorySaver(store).get_tuple(at())
    assert [found.checkpoint["channel_values"]["value"], found.pending_writes[0][2]] == [value] * 2


# What is refused


class Odd:
    """Neither model nor dataclass; LangGraph's serializer writes what has a secret value."""

    def __init__(self, value: str) -> None:
        self.value = value

    def get_secret_value(self) -> str:
        return self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]


def test_a_refusal_names_the_channel_and_its_advice_works(store, saver):
    with pytest.raises(ConfigurationError, match=r"Channel 'odd'.*Odd is not allowed") as refused:
        put(saver, at(), "1", {"odd": [Odd("x")]})
    with pytest.raises(ConfigurationError, match="Channel 'odd'"):
        saver.put_writes(put(saver, at(), "1"), [("odd", Odd("x"))], "t")
    advice = re.search(r"TokenMemorySaver\(.*?\]\)", str(refused.value))
    allowing = eval(advice[0])  # noqa: S307  a user would type it
    put(allowing, at(), "2", {"odd": [Odd("x")]})
    assert read(allowing) == {"odd": [Odd("x")]}
    with pytest.raises(CorruptStoreError, match=r"'t'.*Odd"):
        read(saver)


def test_in_strict_mode_langgraph_names_the_types_of_a_graph(store, monkeypatch):
    monkeypatch.setattr(_msgpack, "STRICT_MSGPACK_ENABLED", True)
    saver = TokenMemorySaver(store)
    with pytest.raises(ConfigurationError, match="Channel 'plan'"):
        put(saver, at(), "1", {"plan": Plan()})
    named = saver.with_allowlist({(Plan.__module__, "Plan"), (Weather.__module__, "Weather")})
    put(named, at(), "1", {"plan": VALUES[1]})
    assert read(named) == {"plan": VALUES[1]}
    with pytest.raises(CorruptStoreError, match="Plan"):
        read(saver)


class Forging(JsonPlusSerializer):
    """Names another module than the one that a type is of."""

    def dumps_typed(self, value):
        kind, data = super().dumps_typed(value)
        return kind, data.replace(__name__.encode(), b"antigravity".ljust(len(__name__), b"_"))


def test_a_row_that_names_a_module_which_is_not_imported_imports_nothing(store, saver):
    writer = TokenMemorySaver(store, serde=Forging(allowed_msgpack_modules=True))
    put(writer, at(), "1", {"plan": Plan(["x" * 300])})
    with pytest.raises(CorruptStoreError, match=r"'t'.*channel 'plan'.*antigravity.*not allowed"):
        read(saver)
    assert not [name for name in sys.modules if name.startswith("antigravity")]


@pytest.mark.parametrize(
    "row",
    [
        b"-pickle\0cposix\nsystem\n(S'true'\ntR.",
        b'-json\0{"lc": 2, "type": "constructor", "id": ["os", "system"]}',
    ],
)
def test_a_row_that_was_tampered_with_runs_nothing(tmp_path, monkeypatch, row):
    monkeypatch.setattr(os, "system", lambda _command: pytest.fail("it was run"))
    with TranscriptStore(tmp_path / "saver.db") as store:
        saver = TokenMemorySaver(store)
        put(saver, at(), "1", {"plan": Plan()})
        raw = sqlite3.connect(tmp_path / "saver.db", isolation_level=None)
        raw.execute("UPDATE tokenmem_checkpoints SET body = ?", (row,))
        raw.close()
        with pytest.raises(CorruptStoreError, match="'t'"):
            read(saver)


def test_a_serializer_that_pickles_is_refused(store):
    with pytest.raises(ConfigurationError, match="pickle"):
        TokenMemorySaver(store, serde=JsonPlusSerializer(pickle_fallback=True))


# Messages of every kind, and odd ones


def changed(message, **fields):
    for name, value in fields.items():
        setattr(message, name, value)
    return message


CALL = {"name": "f", "args": {"a": [1, None]}, "id": "c", "type": "tool_call"}
WRONG = {"name": "f", "args": "{", "id": "d", "error": "not JSON", "type": "invalid_tool_call"}
EVERY = [
    SystemMessage("s"),
    HumanMessage([{"type": "text", "text": "t"}, {"type": "image", "url": "u"}], name="n"),
    AIMessage(
        [{"type": "reasoning", "reasoning": "r"}, {"type": "text", "text": "t"}],
        tool_calls=[CALL],
        invalid_tool_calls=[WRONG],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"model": "m", "nested": {"k": [1, 2.5, None, True]}},
        additional_kwargs={"signature": "abc"},
    ),
    ToolMessage("r", tool_call_id="c", artifact={"rows": [1]}, status="error", name="f"),
    ToolMessage("r", tool_call_id="c", artifact={1, 2}),
    FunctionMessage("r", name="f"),
    ChatMessage("c", role="critic"),
    RemoveMessage(id="m2"),
    AIMessageChunk("half", tool_call_chunks=[]),
    ToolMessageChunk("half", tool_call_id="c"),
    HumanMessage("NUL \x00"),
    HumanMessage(""),
]
ODD = [
    lambda: changed(AIMessage("x", tool_calls=[CALL]), tool_calls=[{**CALL, "args": "{"}]),
    lambda: changed(ToolMessage("42", tool_call_id="c1"), tool_call_id=None),
    lambda: changed(AIMessage("x"), content=[1]),
    lambda: changed(AIMessage("x"), content=None),
    lambda: changed(AIMessage("x"), additional_kwargs=None),
    lambda: changed(HumanMessage("x"), name=5),
    lambda: changed(ChatMessage(content="x", role="ann"), role=None),
    lambda: changed(AIMessageChunk("x"), usage_metadata={"total": 1}),
    lambda: AIMessage("x", response_metadata={"tokenmem": {"created_at": 5}}),
]
# LangGraph's serializer warns of them; they are stored all the same.
warns = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")


@pytest.mark.slow
@warns
@pytest.mark.parametrize("message", [*EVERY, *(make() for make in ODD)], ids=str)
def test_a_message_comes_back_from_a_checkpoint_as_it_was(store, saver, message):
    message.id = "m2"
    said = [HumanMessage("Hello", id="m1"), message, HumanMessage("Still there?", id="m3")]
    config = put(saver, at(), "1", {"messages": said, "other": {"deep": [message]}})
    saver.put_writes(config, [("messages", [message]), ("one", message)], "task")
    # Another saver: what this one remembers would prove nothing.
    other = TokenMemorySaver(store)
    written = [value for _, _, value in other.get_tuple(at()).pending_writes]
    held = read(other)
    for back in (held["messages"][1], held["other"]["deep"][0], written[0][0], written[1]):
        assert type(back) is type(message)
        assert (back.__dict__, back.model_extra) == (message.__dict__, message.model_extra)
    put(other, config, "2", {"messages": [*held["messages"], AIMessage("Yes.", id="m4")]}, 2)
    assert [one.id for one in store.messages("t") if one.id != "m2"] == ["m1", "m3", "m4"]


DEEP: dict[str, Any] = {}
for _ in range(5_000):
    DEEP = {"deeper": DEEP}
CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE


@warns
@pytest.mark.parametrize("what", [threading.Lock(), DEEP, CIRCLE], ids=["lock", "deep", "circle"])
def test_what_cannot_be_written_is_refused_by_name(saver, what):
    odd = changed(ToolMessage("42", tool_call_id="c1", id="m1"), artifact=what)
    for channel, value in (("messages", [odd]), ("a", what)):
        with pytest.raises(ConfigurationError, match="cannot be stored"):
            put(saver, at(), "1", {channel: value})
        with pytest.raises(ConfigurationError, match="cannot be stored"):
            saver.put_writes(at(checkpoint_id="1"), [(channel, value)], "task")
    put(saver, at(), "1", {"messages": [HumanMessage("Hello", id="m1")]})
    assert texts(read(saver)["messages"]) == ["Hello"]


# What is stored is what was checked, whatever a node does with its state meanwhile.


@pytest.mark.slow
@pytest.mark.parametrize("way", ["checkpoint", "write"])
def test_a_value_that_is_changed_while_it_waits_is_stored_as_it_was(tmp_path, way):
    with TranscriptStore(tmp_path / "saver.db") as store:
        saver, inner = TokenMemorySaver(store), [1]
        box = [HumanMessage("hi", id="h"), {"v": inner}]
        config = put(saver, at(), "1")
        work = {
            "write": lambda: saver.put_writes(config, [("box", box)], "task"),
            "checkpoint": lambda: put(saver, config, "2", {"box": box}),
        }
        worker = threading.Thread(target=work[way])
        with store.database.writing("test"):
            worker.start()
            worker.join(0.2)
            assert worker.is_alive()
            inner.append(Odd("x"))
        worker.join(30)
        found = saver.get_tuple(at())
        written = found.pending_writes[0][2] if way == "write" else read(saver)["box"]
        assert written == [HumanMessage("hi", id="h"), {"v": [1]}]


# Lists: stored as they are, however they came out of the one before


CHANGES = (
    *("edit", "nest", "remove", "say", "shuffle", "cut", "read", "say much", "replace"),
    *("rebuild", "more", "less", "forget its id", "deepen", "empty", "begin anew", "say again"),
)
# Changes that seldom follow one another by chance stand together.
STEPS = [*((one,) for one in CHANGES), ("read", "cut", "grow back"), ("cut", "grow back")]


def changed_list(  # noqa: C901, PLR0911, PLR0912  (one for each change)
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
@given(st.lists(st.sampled_from(STEPS), max_size=15), st.randoms(use_true_random=False))
@settings(max_examples=settings.default.max_examples // 2)
def test_a_list_is_stored_as_it_is(steps, dice):
    with TranscriptStore("sqlite://") as store:
        saver, parent = TokenMemorySaver(store), at()
        names = [f"m{n}" for n in range(20)] if dice.random() < 0.5 else [None] * 20
        said = longest = [HumanMessage("Hello", id=name) for name in names]
        for number, how in enumerate(["say", *chain.from_iterable(steps)]):
            if how == "read" and number:
                said = read(saver, parent)["messages"]
            elif how == "grow back":
                said = [*said, *copy.deepcopy(longest[len(said) :])]
            said = changed_list(said, how, dice)
            wanted = copy.deepcopy(said)
            longest = max(longest, wanted, key=len)
            values = {"messages": said, "some": said[:5]}
            parent = put(saver, parent, f"{number:08}", values, number)
            for reader in (saver, TokenMemorySaver(store)):
                assert read(reader, parent) == {"messages": wanted, "some": wanted[:5]}


# Messages without ids, as reducers other than `add_messages` leave them


words = st.sampled_from(["yes", "no", "go on"])


@pytest.mark.slow
@given(st.lists(st.tuples(words, words, st.booleans()), min_size=1, max_size=8), st.booleans())
@settings(max_examples=settings.default.max_examples // 2)
def test_messages_without_ids_are_in_the_transcript_once_and_in_order(chosen, is_rebuilt):
    def joined(old, new):
        kept = [*(old or []), *new]
        return [message.model_copy(deep=True) for message in kept] if is_rebuilt else kept

    state = TypedDict("state", {"messages": Annotated[list, joined], "answer": str})  # noqa: UP013

    def answer(found):
        return {"messages": [AIMessage(found["answer"])]}

    builder = StateGraph(state).add_node(answer).add_edge(START, "answer")
    twin, said = builder.compile(checkpointer=InMemorySaver()), []
    with TranscriptStore("sqlite://") as store:
        saver = TokenMemorySaver(store)
        for question, reply, is_restarted in chosen:
            if is_restarted:
                saver = TokenMemorySaver(store)
            graph = builder.compile(checkpointer=saver)
            turn = {"messages": [HumanMessage(question)], "answer": reply}
            found, wanted = graph.invoke(turn, thread()), twin.invoke(turn, thread())
            assert found["messages"] == wanted["messages"]
            said += [question, reply]
            assert texts(store.messages("t")) == said
