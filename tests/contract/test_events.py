"""Whoever listens to the callbacks or reads the log knows what was done, to whom, and when."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langsmith import Client
from langsmith.run_helpers import tracing_context

from langchain_tokenmem import (
    MemoryMessagesState,
    Recall,
    TokenMemory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.events import MemoryCallbacks, MemoryEvent, TraceCallbacks
from langchain_tokenmem.graphs import TokenMemoryTransformer
from tests.contract.chats import Heard, Talker, Way, long_turns

PRIVATE = "Wolperdinger"
PARTS = ("system", "tools", "pinned", "summary", "memory_block", "tail")
TOLD = re.compile(
    r"(?:thread|session) (\S+): ([\d,]+) → ([\d,]+) tokens, "
    r"(?:[\d,]+ results shortened, )?(?:[\d,]+ messages summarized )?.*\((\w+)\)"
)


def told_in(record: logging.LogRecord) -> re.Match[str] | None:
    return TOLD.fullmatch(record.getMessage()) if record.levelno == logging.INFO else None


@pytest.mark.parametrize("way", ["history", "chain", "middleware", "node", "nodes"], indirect=True)
async def test_each_warning_names_the_conversation(way: Way, caplog):
    chat = way.chat(TokenMemory(2_000, background=False), thread="t7")
    chat.store.set_settings(session_id="t7", mode="no such mode")
    await chat.ask([HumanMessage("My code is P-7."), AIMessage("", id="blank")])
    for question in (*long_turns(1), long_turns(1, words=3_000)[0]):
        await chat.ask(question)
    warnings = {r.getMessage() for r in caplog.records if r.levelno == logging.WARNING}
    own = {one for one in warnings if one.startswith(("Thread 't7': ", "Session 't7': "))}
    assert warnings == own
    assert [one for one in own if "own mode is not used" in one]
    assert [one for one in own if "is too long beside the rest" in one]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["history", "chain", "middleware", "node", "nodes"], indirect=True)
async def test_every_integration_tells_of_each_call_and_each_change(way: Way, caplog):
    caplog.set_level(logging.DEBUG, "langchain_tokenmem.events")  # a page of the docs has set it
    heard = Heard()
    memory = TokenMemory(2_000, callbacks=[heard])
    chat = way.chat(memory, thread="t7", user="ann")
    with caplog.at_level(logging.DEBUG, "langchain_tokenmem"):
        for question in long_turns(24):
            await chat.ask(f"{PRIVATE}: {question}")
            memory.close()
    views, folds = heard.of("view"), heard.of("fold")
    assert len(views) == len(chat.requests) == 24
    assert folds
    assert len(folds) == len([event for event in heard.starts if event.kind == "fold"])
    assert all(event.tokens_after < event.tokens_before for event in folds)
    assert all(event.summarized for event in folds)
    for event in heard.events:
        assert (event.session, event.user) == ("t7", "ann")
        assert event.thread == ("t7" if way.is_graph else None)
        assert event.duration_s >= 0
    if way.is_graph:
        assert len({event.run_id for event in views} - {None}) == 24, "each call is a run"
    lines = [record for record in caplog.records if record.name.endswith("events")]
    told = [found.groups() for found in map(told_in, lines) if found]
    assert [(name, reason) for name, _, _, reason in told] == [("t7", f.reason) for f in folds]
    assert [r for r in lines if r.levelno == logging.DEBUG and "request of" in r.msg % r.args]
    assert PRIVATE not in caplog.text


@pytest.mark.slow
def test_who_was_compacted_when_and_for_how_much_is_known_of_20_sessions_at_once(caplog):
    heard, sessions = Heard(), 20
    caplog.set_level(logging.DEBUG, "langchain_tokenmem")
    middleware = TokenMemoryMiddleware(TokenMemory(2_000, callbacks=[heard]))
    agent = create_agent(Talker(), middleware=[middleware], checkpointer=InMemorySaver())

    async def talk(name: str) -> int:
        config = {"configurable": {"thread_id": name}}
        for question in long_turns(24):
            await agent.ainvoke({"messages": question}, config)
        state = (await agent.aget_state(config)).values["token_memory"]["TokenMemoryMiddleware"]
        return state["summary"]["covered"]

    async def everyone() -> list[int]:
        return await asyncio.gather(*(talk(f"t{n}") for n in range(sessions)))

    covered = asyncio.run(everyone())
    assert min(covered) > 0
    logged = [found.groups() for record in caplog.records if (found := told_in(record))]
    for number, count in enumerate(covered):
        thread = f"t{number}"
        folds = [event for event in heard.of("fold") if event.thread == thread]
        assert sum(event.summarized for event in folds) == count
        assert {event.model for event in folds} == {"gpt-4o"}
        assert len([event for event in heard.of("view") if event.thread == thread]) == 24
        assert [
            (before, after, reason) for name, before, after, reason in logged if name == thread
        ] == [
            (f"{event.tokens_before:,}", f"{event.tokens_after:,}", event.reason) for event in folds
        ]


def test_a_summarizer_that_takes_its_time_is_an_event_of_its_own():
    heard = Heard()
    memory = TokenMemory(2_000, callbacks=[heard], summarizer=Talker(answer="All of it."))
    with TranscriptStore("sqlite://") as store:
        middleware = TokenMemoryMiddleware(memory, store=store)
        agent = create_agent(Talker(), middleware=[middleware], checkpointer=InMemorySaver())
        for question in long_turns(20):
            agent.invoke({"messages": question}, {"configurable": {"thread_id": "t1"}})
            memory.close()
    summaries, folds = heard.of("summary"), heard.of("fold")
    assert len(summaries) == len(folds) > 0
    assert all(event.calls and event.summarizer for event in summaries)
    assert {event.thread for event in summaries} == {"t1"}, "in the background, too"
    assert sum(event.calls for event in summaries) == sum(event.calls for event in folds)


@pytest.mark.slow
def test_recall_and_a_refused_request_are_events():
    heard, refused = Heard(), [ValueError("This model's maximum context length is 900 tokens.")]
    with TranscriptStore("sqlite://") as store:
        memory = TokenMemory(3_000, callbacks=[heard], recall=Recall(store))

        def answer(_request: object) -> AIMessage:
            if len(heard.of("view")) == 20 and refused:
                raise refused.pop()
            return AIMessage("Noted.")

        agent = create_agent(
            Talker(answer=answer),
            middleware=[TokenMemoryMiddleware(memory)],
            checkpointer=InMemorySaver(),
        )
        config = {"configurable": {"thread_id": "t1"}}
        for question in long_turns(24):
            agent.invoke({"messages": question}, config)
        agent.invoke({"messages": "Where is parcel P-7002?"}, config)
    recalled = heard.of("recall")[-1]
    assert recalled.ids
    assert recalled.tokens_after > 0
    (retry,) = heard.of("overflow_retry")
    assert retry.tokens_after < retry.tokens_before
    assert retry.session == "t1"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["middleware", "node"], indirect=True)
async def test_an_entry_whose_messages_were_edited_is_told_once(way: Way):
    heard = Heard()
    memory = TokenMemory(2_000, callbacks=[heard])
    chat = way.chat(memory, thread="t1")
    for question in long_turns(24):
        await chat.ask(question)
        memory.close()
    assert not heard.of("redact")
    first = chat.said()[0]
    await chat.ask(first.model_copy(update={"content": "Forget it."}))
    await chat.ask("And now?")
    (told,) = heard.of("redact")
    assert (told.reason, told.thread) == ("edited", "t1")
    assert told.tokens_before > 0


@pytest.mark.parametrize("way", ["middleware", "node", "nodes"], indirect=True)
async def test_each_request_is_in_the_custom_stream_before_the_model_is_called(way: Way):
    memory = TokenMemory(2_000)
    chat: Any = way.chat(memory)
    said = {"messages": [HumanMessage("Where is parcel P-7?")]}
    events = [event async for event in chat.graph.astream(said, chat.config, stream_mode="custom")]
    (view,) = [event for event in events if event["event"] == "view"]
    assert view["tokens"] == memory.for_model(chat.model).explain(chat.said()[:1]).tokens
    assert view["tokens"] < view["limit"]
    assert sum(n for name, n in view["parts"].items() if name in PARTS) == view["tokens"]


USED = AIMessage(
    "Noted.",
    usage_metadata={
        "input_tokens": 90,
        "output_tokens": 3,
        "total_tokens": 93,
        "input_token_details": {"cache_read": 64},
    },
)


async def run_events(graph: Any, said: Any, config: Any, *, is_async: bool) -> list[Any]:
    if not is_async:
        run = graph.stream_events(said, config, version="v3")
        return list(run.extensions["tokenmem"])
    run = await graph.astream_events(said, config, version="v3")
    return [event async for event in run.extensions["tokenmem"]]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_call_of_an_agent_starts_and_ends_in_the_v3_projection(*, is_async: bool):
    too_long = ValueError("This model's maximum context length is 99 tokens.")
    answers = [*[USED] * 11, too_long, USED]
    agent = create_agent(
        Talker(answer=answers, disable_streaming=True),
        middleware=[TokenMemoryMiddleware()],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "t1"}}
    told = []
    for question in long_turns(12):
        told += await run_events(agent, {"messages": question}, config, is_async=is_async)
    kinds = [event["event"] for event in told if event["event"] in {"view", "reply"}]
    assert kinds == ["view", "reply"] * 13
    *replies, refused, last = [event for event in told if event["event"] == "reply"]
    for reply in (*replies, last):
        assert (reply["input_tokens"], reply["cached_tokens"], reply["output_tokens"]) == (
            90,
            64,
            3,
        )
        assert reply["duration_s"] >= 0
        assert reply["error"] is None
    assert (refused["error"], refused["input_tokens"]) == ("ValueError", None)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_call_of_a_graph_starts_and_ends_in_the_v3_projection(*, is_async: bool):
    model, memory = (
        Talker(answer=USED, disable_streaming=True),
        TokenMemory(2_000, summarizer=Talker()),
    )
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": model.invoke(memory_input(state, memory))})
    builder.add_edge(START, memory_nodes(builder, memory))
    graph = builder.compile(transformers=[TokenMemoryTransformer])
    told = await run_events(graph, {"messages": [HumanMessage("Hi.")]}, {}, is_async=is_async)
    view, reply = told
    assert (view["event"], reply["event"]) == ("view", "reply")
    assert (reply["input_tokens"], reply["cached_tokens"]) == (90, 64)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["chain", "middleware", "node"], indirect=True)
@pytest.mark.parametrize("fails", [False, True])
async def test_a_summary_behind_the_reply_is_a_run_of_its_own(way: Way, *, fails: bool):
    runs, heard = Runs(), Heard()
    answer: Any = ValueError("The summarizer is down.") if fails else "All of it."
    writer = Talker(answer=answer)
    memory = TokenMemory(2_000, summarizer=writer, callbacks=[TraceCallbacks(), heard])
    chat = way.chat(memory, thread="t1", user="ann")
    chat_config = {**chat.config, "callbacks": [runs]}
    for question in long_turns(24):
        await chat.invoke(question, chat_config)
        memory.close()
    assert writer.requests
    begun = [
        (run, parent, metadata)
        for run, (name, parent, metadata) in runs.begun.items()
        if name == "tokenmem.background"
    ]
    assert begun
    for run, parent, metadata in begun:
        assert parent is None
        assert (metadata["tokenmem.session"], metadata["tokenmem.user"]) == ("t1", "ann")
        assert run in runs.ended
        assert metadata["tokenmem.run_id"] in {*map(str, runs.begun)}
    parents = {name: parent for name, parent, _ in runs.begun.values()}
    assert parents["tokenmem.fold"] in {run for run, _, _ in begun}


class Spans(Client):
    """A client of LangSmith that keeps what it would send."""

    def __init__(self) -> None:
        super().__init__(api_key="none", auto_batch_tracing=False)
        self.given: list[dict[str, Any]] = []

    def create_run(self, *args: Any, **given: Any) -> None:
        self.given.append({**given, "name": str(args)})

    def update_run(self, *args: Any, **given: Any) -> None:
        self.given.append({**given, "name": str(given.get("name"))})


def test_the_spans_of_the_middleware_do_not_record_its_private_state():
    spans = Spans()
    middleware = TokenMemoryMiddleware(TokenMemory(2_000))
    agent = create_agent(Talker(), middleware=[middleware], checkpointer=InMemorySaver())
    with tracing_context(enabled=True, client=spans):
        for question in long_turns(24):
            agent.invoke({"messages": question}, {"configurable": {"thread_id": "t1"}})
    own = [given for given in spans.given if "wrap_model_call" in given["name"]]
    assert own
    assert not [given for given in own if given.get("inputs") or given.get("outputs")]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["node", "nodes"], indirect=True)
async def test_the_runs_of_the_nodes_do_not_record_the_private_state(way: Way):
    runs = RunCollectorCallbackHandler()
    chat: Any = way.chat(TokenMemory(2_000))
    config = {**chat.config, "callbacks": [runs]}
    for question in long_turns(24):
        await chat.invoke(question, config)
    nodes = [node for run in runs.traced_runs for node in run.child_runs if "memory" in node.name]
    recorded = [value for node in nodes for value in (node.inputs, node.outputs)]
    assert any("messages" in value for value in recorded)
    assert chat.graph.get_state(chat.config).values["memory"]["summary"]
    assert not [value for value in recorded if "memory" in value or "llm_input_stamp" in value]


class ModelRuns(BaseCallbackHandler):
    def __init__(self) -> None:
        self.metadata: list[dict[str, Any]] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **known: Any) -> None:
        self.metadata.append(known["metadata"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [(name, is_async) for name in ("middleware", "chain") for is_async in (False, True)],
    indirect=True,
)
async def test_the_run_of_the_model_says_how_full_its_request_is(way: Way):
    heard, runs, views = Heard(), ModelRuns(), []
    chat = way.chat(TokenMemory(2_000, callbacks=[heard]), thread="t1", system="Be brief.")
    config = {**chat.config, "callbacks": [runs]}
    for question in long_turns(20):
        await chat.invoke(question, config)
        views.append(heard.of("view")[-1])
    assert len(runs.metadata) == len(chat.requests) == len(views) == 20
    tokens = [metadata["tokenmem.tokens"] for metadata in runs.metadata]
    assert tokens == [view.tokens_after for view in views]
    assert max(tokens) <= min(metadata["tokenmem.limit"] for metadata in runs.metadata) < 2_000
    assert "tokenmem.reason" not in runs.metadata[0]
    assert runs.metadata[0]["tokenmem.hidden"] == 0
    reasons = {metadata.get("tokenmem.reason") for metadata in runs.metadata}
    assert reasons == {None, *(fold.reason for fold in heard.of("fold"))}
    last = runs.metadata[-1]["tokenmem.hidden"]
    assert last == sum(fold.summarized for fold in heard.of("fold")) > 0
    assert not [keywords for keywords in chat.model.keywords if "metadata" in keywords]


def test_stats_add_up_what_was_done_in_all_conversations():
    heard = Heard()
    memory = TokenMemory(2_000, callbacks=[heard])
    agent = create_agent(
        Talker(), middleware=[TokenMemoryMiddleware(memory)], checkpointer=InMemorySaver()
    )
    assert memory.stats() == {}
    for thread in ("t1", "t2"):
        for question in long_turns(24):
            agent.invoke({"messages": question}, {"configurable": {"thread_id": thread}})
    stats = memory.stats()
    assert stats.keys() == {event.kind for event in heard.events}
    assert stats["view"]["events"] == 48
    assert stats["fold"]["summarized"] == sum(event.summarized for event in heard.of("fold")) > 0


def test_each_error_of_a_callback_is_logged_once_with_its_traceback(caplog):
    errors = [KeyError("a"), ValueError("b"), KeyError("c")]

    class Failing(MemoryCallbacks):
        def on_memory_end(self, event: MemoryEvent) -> None:
            raise errors.pop(0)

    memory = TokenMemory(2_000, callbacks=[Failing()])
    with TranscriptStore("sqlite://") as store:
        chain = with_token_memory(Talker(), memory, store)
        for _ in range(3):
            chain.invoke("Hello.", {"configurable": {"session_id": "s"}})
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.exc_info[0] for record in logged] == [KeyError, ValueError]


class Runs(BaseCallbackHandler):
    """Keeps the runs of the memory: name, parent, how it ended."""

    def __init__(self) -> None:
        self.begun: dict[Any, tuple[str, Any, dict[str, Any]]] = {}
        self.ended: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **known: Any) -> None:
        name = known.get("name") or ""
        self.begun[known["run_id"]] = (name, known["parent_run_id"], known["metadata"] or {})

    def on_chain_end(self, outputs: Any, *, run_id: Any, **_: Any) -> None:
        self.ended.append(run_id)

    on_chain_error = on_chain_end


@pytest.mark.slow
@pytest.mark.parametrize("way", ["chain", "middleware", "node"], indirect=True)
@pytest.mark.parametrize("fails", [False, True])
async def test_what_the_memory_does_is_in_the_run_tree(way: Way, *, fails: bool):
    runs = Runs()
    answer: Any = ValueError("The summarizer is down.") if fails else "All of it."
    memory = TokenMemory(
        2_000, summarizer=Talker(answer=answer), callbacks=[TraceCallbacks()], background=False
    )
    chat = way.chat(memory, thread="t1")
    chat_config = {**chat.config, "callbacks": [runs]}
    for question in long_turns(20):
        await chat.invoke(question, chat_config)
    names = {run: name for run, (name, _, _) in runs.begun.items()}
    folds = [run for run, name in names.items() if name == "tokenmem.fold"]
    summaries = [run for run, name in names.items() if name == "tokenmem.summary"]
    assert folds
    assert summaries
    assert all(names.get(runs.begun[run][1]) == "tokenmem.fold" for run in summaries)
    assert all(runs.begun[run][1] in names for run in folds), "a child of the call"
    assert {runs.begun[run][2]["tokenmem.session"] for run in folds} == {"t1"}
    assert {*folds, *summaries} <= {*runs.ended}
    assert len(runs.ended) == len({*runs.ended})
