"""Robustness of the checkpointer: concurrency, growth, odd ids, round trips, untrusted rows."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    ToolMessageChunk,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, MessagesState, StateGraph

import langchain_tokenmem
from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ScopeError, StoreError


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as opened:
        yield opened


@pytest.fixture
def saver(store):
    return TokenMemorySaver(store)


def at(thread="t", checkpoint_id=None, ns=""):
    named = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, **named}}


def put(saver, parent, values, version="1.0", **metadata):
    versions = dict.fromkeys(values, version)
    made = {
        "v": 4,
        "id": str(uuid6(clock_seq=-1)),
        "ts": "2026-11-21T12:00:00+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }
    return saver.put(
        parent, made, {"source": "loop", "step": 0, "parents": {}, **metadata}, versions
    )


def chat(saver, schema=MessagesState):
    def answer(state):
        number = len(state["messages"])
        return {"messages": [AIMessage(f"answer {number}", id=f"a{number}")]}

    graph = StateGraph(schema)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


def say(graph, text, config):
    return graph.invoke({"messages": [HumanMessage(text, id=f"h-{text}")]}, config)


def test_sync_saver_calls_inside_a_running_event_loop_work(saver):
    """On the loop's own thread, where a bridge to the loop would wait for itself."""
    graph = chat(saver)

    async def inside():
        say(graph, "one", at())
        made = put(saver, at("u"), {"a": 1})
        saver.put_writes(made, [("a", 2)], "task")
        assert saver.get_tuple(at("u")).pending_writes == [("task", "a", 2)]
        await graph.ainvoke({"messages": [HumanMessage("two", id="h-two")]}, at())
        return len(list(saver.list(at()))), len(graph.get_state(at()).values["messages"])

    found = []
    worker = threading.Thread(target=lambda: found.append(asyncio.run(inside())), daemon=True)
    worker.start()
    worker.join(30)
    assert not worker.is_alive(), "it hangs"
    assert found == [(6, 4)]


@pytest.mark.slow
def test_six_savers_in_six_threads_share_one_sqlite_file(tmp_path):
    """The processes are in integration_tests; here each thread has a saver and a store."""
    url = f"sqlite:///{tmp_path}/memory.db"
    errors = []

    def work(number):
        try:
            with TranscriptStore(url) as store:
                parent = at(f"t{number}")
                for step in range(15):
                    parent = put(TokenMemorySaver(store), parent, {"n": step}, f"{step:032}.5")
        except Exception as error:  # noqa: BLE001  # it is looked at below
            errors.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    with TranscriptStore(url) as store:
        saver = TokenMemorySaver(store)
        assert [len(list(saver.list(at(f"t{number}")))) for number in range(6)] == [15] * 6


@pytest.mark.slow
def test_checkpoint_bytes_of_a_turn_do_not_grow_with_the_thread(tmp_path):
    path = tmp_path / "memory.db"
    sizes = []
    with TranscriptStore(f"sqlite:///{path}") as store:
        saver, parent, said = TokenMemorySaver(store), at(), []
        for turn in range(300):
            said = [*said, HumanMessage("x" * 400, id=f"h{turn}")]
            parent = put(saver, parent, {"messages": said}, f"{turn:032}.5")
            if turn in {99, 199, 299}:
                store.close()  # writes the log back
                sizes.append(path.stat().st_size)
    first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert second < 1.3 * first
    assert sizes[2] - sizes[0] < 200 * 1_600


class Delta(TypedDict):
    messages: Annotated[
        list[AnyMessage],
        DeltaChannel(
            lambda old, writes: [*old, *(one for some in writes for one in some)],
            list,
            snapshot_frequency=7,
        ),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [{"strategy": "keep_latest"}, {"keep_last": 3}])
def test_pruning_keeps_the_checkpoints_that_delta_channels_need(saver, kept):
    graph = chat(saver, Delta)
    for turn in range(20):
        say(graph, str(turn), at())
        if turn == 10:
            fork = graph.get_state(at()).config
    say(graph, "fork", fork)
    before = graph.get_state(at()).values
    assert len(before["messages"]) in {24, 40}
    count = len(list(saver.list(at())))
    saver.prune(["t"], **kept)
    assert len(list(saver.list(at()))) < count / 2
    assert graph.get_state(at()).values == before
    after = say(graph, "on", at())
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert len(after["messages"]) == len(before["messages"]) + 2


@pytest.mark.slow
def test_threads_with_odd_ids_and_their_subgraphs_stay_apart(saver, store):
    names = ["a", "../a", "a/b", "a|b", "a:b", "A", "a ", "%", "x' OR '1'='1", "日本"]
    for name in names:
        for ns in ("", "child:1", "child:2|grand:3", "other:1"):
            said = [HumanMessage(f"{name!r} {ns}", id="same")]
            put(saver, at(name, ns=ns), {"messages": said}, "1.0")
    for name in names:
        for ns in ("", "child:1", "child:2|grand:3", "other:1"):
            held = saver.get_tuple(at(name, ns=ns)).checkpoint["channel_values"]["messages"]
            assert [one.content for one in held] == [f"{name!r} {ns}"]
        assert [one.content for one in store.messages(name)] == [f"{name!r} "]
    saver.delete_thread("a")
    assert store.messages("a") == []
    for name in names[1:]:
        assert len(list(saver.list({"configurable": {"thread_id": name}}))) == 4
    for bad in ("", " ", None, 1, "a\x1fchild", "a\x00b", "a\nb", "a\x85b"):
        with pytest.raises(ScopeError):
            saver.get_tuple(at(bad))


CALLS = [{"name": "f", "args": {"a": [1, None]}, "id": "c", "type": "tool_call"}]
WRONG = [{"name": "f", "args": "{", "id": "d", "error": "not JSON", "type": "invalid_tool_call"}]
EVERY = [
    SystemMessage("s", id="1"),
    HumanMessage([{"type": "text", "text": "t"}, {"type": "image", "url": "u"}], id="2", name="n"),
    AIMessage(
        [{"type": "reasoning", "reasoning": "r"}, {"type": "text", "text": "t"}],
        id="3",
        tool_calls=CALLS,
        invalid_tool_calls=WRONG,
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"model": "m", "nested": {"k": [1, 2.5, None, True]}},
        additional_kwargs={"signature": "abc"},
    ),
    ToolMessage("r", tool_call_id="c", id="4", artifact={"rows": [1]}, status="error", name="f"),
    ToolMessage("r", tool_call_id="c", id="5", artifact={1, 2}),
    FunctionMessage("r", name="f", id="6"),
    ChatMessage("c", role="critic", id="7"),
    RemoveMessage(id="8"),
    AIMessageChunk("half", id="9", tool_call_chunks=[]),
    HumanMessageChunk("half", id="10"),
    ToolMessageChunk("half", tool_call_id="c", id="11"),
    HumanMessage("NUL \x00", id="12"),
    HumanMessage(""),
]


@pytest.mark.slow
@pytest.mark.parametrize("message", EVERY, ids=lambda one: type(one).__name__)
def test_every_message_type_comes_back_from_a_checkpoint_as_it_was(saver, message):
    first = put(saver, at(), {"messages": [message], "other": {"deep": (message,)}})
    saver.put_writes(first, [("messages", [message]), ("one", message)], "task")
    # Another saver: what this one remembers would prove nothing.
    found = TokenMemorySaver(saver.store).get_tuple(at())
    held = found.checkpoint["channel_values"]
    written = [value for _, _, value in found.pending_writes]
    for back in (held["messages"][0], held["other"]["deep"][0], written[0][0], written[1]):
        assert type(back) is type(message)
        assert back.__dict__ == message.__dict__
        assert back.model_extra == message.model_extra


def test_half_a_surrogate_pair_survives_a_checkpoint(saver, store):
    """LangGraph's serializer makes "?" of it; what was said goes another way."""
    said = HumanMessage("half \ud800", id="h")
    put(saver, at(), {"messages": [said]})
    held = TokenMemorySaver(store).get_tuple(at()).checkpoint["channel_values"]
    assert held["messages"][0].content == "half \ud800"
    assert store.messages("t") == [said]


@pytest.mark.slow
async def test_threads_and_event_loops_share_one_saver(tmp_path):
    """Bounded connections, shared by tasks of two loops and by plain threads."""
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db", pool_size=3) as store:
        saver = TokenMemorySaver(store)

        async def chats(group):
            graph = chat(saver)
            said = {"messages": [HumanMessage("hi", id="h")]}
            await asyncio.gather(
                *(graph.ainvoke(said, at(f"{group}-{number}")) for number in range(6))
            )

        other = threading.Thread(target=lambda: asyncio.run(chats("loop2")))
        plain = [
            threading.Thread(target=say, args=(chat(saver), "hi", at(f"thread-{number}")))
            for number in range(4)
        ]
        for worker in (other, *plain):
            worker.start()
        await chats("loop1")
        for worker in (other, *plain):
            await asyncio.to_thread(worker.join)
        threads = {one.config["configurable"]["thread_id"] for one in saver.list(None)}
        assert len(threads) == 16
        for name in threads:
            assert len(saver.get_tuple(at(name)).checkpoint["channel_values"]["messages"]) == 2


def test_keys_and_values_of_a_checkpoint_filter_are_data_not_sql(saver):
    put(saver, at(), {"a": 1}, user="ann")
    put(saver, at("u"), {"a": 1}, user="bob", **{"x') OR 1=1 --": 1})
    for key in ("x') OR ('1'='1", "user' OR 1=1 --", "$.user", "user\x00", "%", ""):
        assert list(saver.list(at(), filter={key: "ann"})) == []
    assert len(list(saver.list(at("u"), filter={"x') OR 1=1 --": 1}))) == 1
    for value in ("ann' OR '1'='1", None, ["ann"], {"$ne": 1}, True):
        assert list(saver.list(at(), filter={"user": value})) == []
    assert len(list(saver.list(at(), filter={"user": "ann"}))) == 1


def test_secrets_under_configurable_are_not_written_to_the_database(tmp_path):
    path = tmp_path / "memory.db"
    with TranscriptStore(f"sqlite:///{path}") as store:
        saver = TokenMemorySaver(store)
        config = {
            "configurable": {
                "thread_id": "t",
                "api_key": "sk-canary-1",
                "OPENAI_API_KEY": "sk-canary-2",
                "session_token": "sk-canary-3",
                "user_id": "ann",
            }
        }
        say(chat(saver), "hi", config)
        found = saver.get_tuple(at())
        assert found.metadata["user_id"] == "ann"
        assert "api_key" not in found.metadata
    data = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    assert b"sk-canary" not in data


STRICT = """
import warnings, logging
warnings.simplefilter("error")
from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
seen = []
class Seen(logging.Handler):
    def emit(self, record):
        seen.append(record.getMessage())
logging.getLogger().addHandler(Seen())
with TranscriptStore("sqlite://") as store:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [AIMessage("hi")]})
    graph.add_edge(START, "answer")
    compiled = graph.compile(checkpointer=TokenMemorySaver(store))
    for _ in range(2):
        compiled.invoke({"messages": [HumanMessage("hello")]}, {"configurable": {"thread_id": "t"}})
    found = compiled.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    assert [type(one).__name__ for one in found] == ["HumanMessage", "AIMessage"] * 2
assert seen == [], seen
print("fine")
"""


@pytest.mark.slow
def test_a_checkpointed_graph_passes_strict_msgpack_without_a_warning():
    package = Path(langchain_tokenmem.__file__).parents[1]
    done = subprocess.run(  # noqa: S603  # our own interpreter
        [sys.executable, "-c", STRICT],
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


@pytest.mark.slow
def test_no_module_of_the_package_imports_pickle():
    package = Path(langchain_tokenmem.__file__).parent
    forbidden = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve"}
    files = sorted(package.rglob("*.py"))
    assert len(files) > 50
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not forbidden & {name.partition(".")[0] for name in names}, file


def test_a_damaged_checkpoint_is_named_and_other_threads_stay_readable(tmp_path):
    import sqlite3

    path = tmp_path / "memory.db"
    with TranscriptStore(f"sqlite:///{path}") as store:
        saver = TokenMemorySaver(store)
        made = put(saver, at("bad"), {"messages": [HumanMessage("hi", id="h")]})
        put(saver, at("good"), {"messages": [HumanMessage("hi", id="h")]})
        place = made["configurable"]["checkpoint_id"]
        raw = sqlite3.connect(path, isolation_level=None)
        raw.execute(
            "UPDATE tokenmem_checkpoints SET body = substr(body, 1, 20) WHERE checkpoint_id = ?",
            (place,),
        )
        raw.close()
        for ask in (saver.get_tuple, lambda config: list(saver.list(config))):
            with pytest.raises(StoreError) as error:
                ask(at("bad"))
            assert "'bad'" in str(error.value)
            assert place in str(error.value)
            ask(at("good"))


def test_a_forked_thread_holds_nothing_of_the_branch_it_left(saver):
    graph = chat(saver)
    say(graph, "one", at())
    forked = graph.get_state(at()).config
    say(graph, "secret of the old branch", at())
    old = graph.get_state(at()).config
    say(graph, "two", forked)
    assert [one.content for one in graph.get_state(at()).values["messages"]] == [
        "one",
        "answer 1",
        "two",
        "answer 3",
    ]
    kept = graph.get_state({"configurable": {**old["configurable"]}}).values["messages"]
    assert kept[2].content == "secret of the old branch"
    history = saver.get_delta_channel_history(config=at(), channels=["messages"])
    assert "secret" not in json.dumps(history, default=str)
    say(graph, "three", at())
    texts = [one.content for one in graph.get_state(at()).values["messages"]]
    assert "secret of the old branch" not in texts
    assert len(texts) == 6
