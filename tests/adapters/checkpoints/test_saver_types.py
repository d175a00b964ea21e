"""The types that a state may hold: read back in any process that knows them, refused by name."""

from __future__ import annotations

import enum
import os
import re
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain.agents import create_agent
from langchain_core.agents import AgentAction, AgentFinish
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import Generation
from langchain_core.prompt_values import StringPromptValue
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.serializer import imported, is_state_type

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


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


class Odd:
    """Neither model nor dataclass; LangGraph's serializer writes what has a secret value."""

    def __init__(self, value: str) -> None:
        self.value = value

    def get_secret_value(self) -> str:
        return self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]


class Moment(datetime):
    """A time of its own kind, such as pandas.Timestamp."""


class Answering(GenericFakeChatModel):
    """A model that calls the tool of the response format."""

    def bind_tools(self, tools: Any, **_: Any) -> Answering:
        return self


def put(saver: TokenMemorySaver, values: dict[str, Any], thread: Any = THREAD) -> Any:
    versions: Any = dict.fromkeys(values, 1)
    checkpoint = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
    return saver.put(thread, checkpoint, {}, versions)  # type: ignore[arg-type]


def got(saver: TokenMemorySaver) -> dict[str, Any]:
    found = saver.get_tuple(THREAD)
    assert found is not None
    return found.checkpoint["channel_values"]


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as opened:
        yield opened


def test_an_agent_with_a_response_format_is_stored_and_goes_on(store):
    """The answer was paid for when the saver refused it."""
    call = {"name": "Weather", "args": {"place": "Lisbon", "degrees": 21}, "id": "c1"}
    model = Answering(messages=iter(AIMessage("", tool_calls=[call]) for _ in range(2)))
    agent = create_agent(model, [], response_format=Weather, checkpointer=TokenMemorySaver(store))
    for words in ("How is it in Lisbon?", "And now?"):
        said = agent.invoke({"messages": [HumanMessage(words)]}, THREAD)
        assert said["structured_response"] == Weather(place="Lisbon", degrees=21)
    state = agent.get_state(THREAD).values
    assert state["structured_response"] == Weather(place="Lisbon", degrees=21)


VALUES: dict[str, Any] = {
    "model": Weather(place="Lisbon", degrees=21),
    "dataclass": Plan(["go"], Weather(place="Porto", degrees=18)),
    "enum": Mood.GOOD,
    "named tuple": Point(1, 2),
    "old named tuple": OldPoint(1),
    "in a list": [{"deep": (Mood.GOOD, Plan())}],
    "action": AgentAction("search", "words", "log"),
    "finish": AgentFinish({"output": "done"}, "log"),
    "document": Document("text", metadata={"a": 1}),
    "blob": Blob(data="text"),
    "prompt": StringPromptValue(text="Say it."),
    "generation": Generation(text="said"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_state_of_pydantic_dataclass_enum_and_named_tuple_is_read_back(store, name):
    value = VALUES[name]
    config = put(TokenMemorySaver(store), {"value": value})
    TokenMemorySaver(store).put_writes(config, [("value", value)], "task")
    saver = TokenMemorySaver(store)
    found = saver.get_tuple(THREAD)
    assert [found.checkpoint["channel_values"]["value"], found.pending_writes[0][2]] == [
        [{"deep": [Mood.GOOD, Plan()]}] if name == "in a list" else value
    ] * 2


class PydanticState(BaseModel):
    plan: Plan
    mood: Mood = Mood.GOOD


@dataclass
class DataclassState:
    weather: Weather
    mood: Mood = Mood.GOOD


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (PydanticState, {"plan": Plan(["go"])}),
        (DataclassState, {"weather": Weather(place="Lisbon", degrees=21)}),
    ],
)
def test_a_graph_whose_state_is_pydantic_or_a_dataclass(store, schema, given):
    builder = StateGraph(schema).add_node("n", lambda _: {"mood": Mood.GOOD}).add_edge(START, "n")
    graph = builder.compile(checkpointer=TokenMemorySaver(store))
    graph.invoke(schema(**given), THREAD)
    assert graph.get_state(THREAD).values == {**given, "mood": Mood.GOOD}


# --- what is refused


def test_a_refusal_names_the_channel_at_the_first_put_and_its_advice_works(store):
    class State(TypedDict):
        odd: Any

    builder = StateGraph(State).add_node("n", lambda _: {"odd": Odd("x")}).add_edge(START, "n")
    graph = builder.compile(checkpointer=TokenMemorySaver(store))
    with pytest.raises(ConfigurationError, match=r"Channel 'odd'.*Odd is not allowed") as refused:
        graph.invoke({}, THREAD)
    with pytest.raises(ConfigurationError, match="Channel 'odd'"):
        put(TokenMemorySaver(store), {"odd": [Odd("x")]})
    with pytest.raises(ConfigurationError, match="Channel 'odd'"):
        TokenMemorySaver(store).put_writes(
            put(TokenMemorySaver(store), {}), [("odd", Odd("x"))], "t"
        )
    advice = re.search(r"TokenMemorySaver\(.*?\]\)", str(refused.value))
    saver = eval(advice[0])  # noqa: S307  a user would type it
    put(saver, {"odd": [Odd("x")]})
    assert got(saver) == {"odd": [Odd("x")]}


def test_a_time_of_its_own_kind_such_as_pandas_timestamp_is_refused_with_advice_that_works(store):
    value = Moment(2026, 1, 31, 12)
    for saver in (TokenMemorySaver(store), TokenMemorySaver(store, allowed_types=[Moment])):
        with pytest.raises(ConfigurationError, match=r"Channel 'due'.*Moment") as refused:
            put(saver, {"due": value})
        advice = re.search(r"datetime\.fromisoformat\(value\.isoformat\(\)\)", str(refused.value))
        put(saver, {"due": eval(advice[0])})  # noqa: S307
        assert got(saver) == {"due": datetime(2026, 1, 31, 12)}  # noqa: DTZ001


def test_a_class_inside_of_a_function_is_refused_because_nothing_finds_it(store):
    class Local(BaseModel):
        number: int

    with pytest.raises(ConfigurationError, match=r"Channel 'a'.*Local.*top level of a module"):
        put(TokenMemorySaver(store), {"a": Local(number=1)})
    with pytest.raises(ConfigurationError, match=r"allowed_types: .*Local.*top level of a module"):
        TokenMemorySaver(store, allowed_types=[Local])


def test_what_no_serializer_writes_names_the_channel(store):
    with pytest.raises(ConfigurationError, match="Channel 'lock'"):
        put(TokenMemorySaver(store), {"lock": object()})


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("os", "PathLike"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("antigravity", "geohash"),
        ("tests.adapters.checkpoints.test_saver_types", "Odd"),
        ("langchain_tokenmem", "TokenBudget"),  # it is another module's
        ("langchain_tokenmem.core.budget", "TokenBudget.Inner"),
        (None, "x"),
        ("os", None),
    ],
)
def test_what_is_no_type_of_a_state_of_an_imported_module_is_not_loaded(module, name):
    assert not is_state_type(imported(module, name))
    assert "antigravity" not in sys.modules


def test_a_row_that_names_a_package_which_is_not_imported_is_refused_and_imports_nothing(store):
    class Loose(JsonPlusSerializer):
        def dumps_typed(self, value):
            kind, data = super().dumps_typed(value)
            return kind, data.replace(__name__.encode(), b"antigravity".ljust(len(__name__), b"_"))

    writer = TokenMemorySaver(store, serde=Loose(allowed_msgpack_modules=True))
    put(writer, {"plan": Plan(["x" * 300])})
    with pytest.raises(CorruptStoreError, match=r"'t'.*channel 'plan'.*antigravity.*not allowed"):
        got(TokenMemorySaver(store))
    assert not [name for name in sys.modules if name.startswith("antigravity")]


# --- strict


def test_in_strict_mode_langgraph_names_the_types_of_a_graph(store, monkeypatch):
    monkeypatch.setattr(_msgpack, "STRICT_MSGPACK_ENABLED", True)
    saver = TokenMemorySaver(store)
    with pytest.raises(ConfigurationError, match="Channel 'plan'"):
        put(saver, {"plan": Plan()})
    named = saver.with_allowlist({(Plan.__module__, "Plan"), (Weather.__module__, "Weather")})
    put(named, {"plan": VALUES["dataclass"], "action": VALUES["action"]})
    assert got(named) == {"plan": VALUES["dataclass"], "action": VALUES["action"]}
    with pytest.raises(CorruptStoreError, match="Plan"):
        got(saver)


def test_types_that_are_named_come_on_top(store):
    saver = TokenMemorySaver(store, allowed_types=[Odd]).with_allowlist({("a.b", "C")})
    values = {"odd": Odd("x"), "plan": Plan(["go"])}
    put(saver, values)
    assert got(saver) == values


# --- another process

STATE = """
from dataclasses import dataclass
import enum
from pydantic import BaseModel

class Weather(BaseModel):
    place: str

class Mood(enum.Enum):
    GOOD = "good"

@dataclass
class State:
    weather: Weather | None = None
    mood: Mood = Mood.GOOD
"""
RUN = """
import sys
from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langgraph.graph import START, StateGraph

def graph(saver):
    from saver_state import Mood, State, Weather
    node = lambda _: {"weather": Weather(place="Lisbon"), "mood": Mood.GOOD}
    return StateGraph(State).add_node("n", node).add_edge(START, "n").compile(checkpointer=saver)

thread = {"configurable": {"thread_id": "t"}}
with TranscriptStore("sqlite:///" + sys.argv[2]) as store:
    saver = TokenMemorySaver(store)
    if sys.argv[1] == "write":
        graph(saver).invoke({}, thread)
    elif sys.argv[1] == "read":
        print(graph(saver).get_state(thread).values)
    else:
        try:
            saver.get_tuple(thread)
        except Exception as error:
            print(type(error).__name__, "saver_state" in sys.modules, error)
"""


@pytest.mark.slow
def test_a_thread_is_read_in_a_new_process_whose_graph_is_built_first(tmp_path: Path) -> None:
    (tmp_path / "saver_state.py").write_text(STATE)
    (tmp_path / "run.py").write_text(RUN)
    path = [str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]

    def run(what: str) -> str:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "run.py", what, str(tmp_path / "memory.db")],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    run("write")
    read = run("read")
    assert read == "{'weather': Weather(place='Lisbon'), 'mood': <Mood.GOOD: 'good'>}"
    refused = run("only the saver")
    assert refused.startswith("CorruptStoreError False")
    assert "its module is imported first, as building the graph does" in refused


def test_a_graph_with_messages_and_a_model_in_its_state(store):
    class State(MessagesState):
        weather: Weather

    node = lambda _: {"messages": [AIMessage("Warm.", id="a")], "weather": VALUES["model"]}  # noqa: E731
    builder = StateGraph(State).add_node("n", node).add_edge(START, "n")
    graph = builder.compile(checkpointer=TokenMemorySaver(store))
    graph.invoke({"messages": [HumanMessage("How is it?", id="h")]}, THREAD)
    state = graph.get_state(THREAD).values
    assert state["weather"] == VALUES["model"]
    assert [message.content for message in store.messages("t")] == ["How is it?", "Warm."]


def test_pickle_is_refused_when_storing_and_when_loading(store):
    with pytest.raises(ConfigurationError, match="pickle"):
        TokenMemorySaver(store, serde=JsonPlusSerializer(pickle_fallback=True))
    codec = Codec(JsonPlusSerializer(pickle_fallback=False))
    for row in (
        b"-pickle\0cposix\nsystem\n(S'true'\ntR.",
        b'-json\0{"lc": 2, "type": "constructor", "id": ["os", "system"]}',
    ):
        with pytest.raises(CorruptStoreError):
            codec.unpack(row)
