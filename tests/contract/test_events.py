"""Whoever listens to the callbacks or reads the log knows what was done, to whom, and when."""

import logging
import re
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
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
from tests.contract.chats import Heard, Talker, Way, agent_of, in_thread, long_turns, ways

PRIVATE = "Wolperdinger"
PARTS = ("system", "tools", "pinned", "summary", "memory_block", "tail")
FOLDED = re.compile(
    r"(?:thread|session) (\S+): ([\d,]+) → ([\d,]+) tokens, "
    r"(?:[\d,]+ messages? shortened, )?[\d,]+ messages? summarized.*\((\w+)\)"
)


@ways()
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
    assert [one for one in own if "does not fit beside the rest" in one]


@pytest.mark.slow
@ways()
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
    logged = [FOLDED.fullmatch(line.getMessage()) for line in lines if line.levelname == "INFO"]
    assert [line.groups() for line in logged if line] == [
        ("t7", f"{fold.tokens_before:,}", f"{fold.tokens_after:,}", fold.reason) for fold in folds
    ]
    assert [r for r in lines if r.levelno == logging.DEBUG and "request of" in r.getMessage()]
    assert PRIVATE not in caplog.text


@pytest.mark.slow
@ways("middleware", "chain", both=True)
async def test_a_summarizer_that_takes_its_time_is_an_event_of_its_own(way: Way):
    heard = Heard()
    memory = TokenMemory(2_000, callbacks=[heard], summarizer=Talker(answer="All of it."))
    chat = way.chat(memory, thread="t1")
    await chat.talk(8, words=200, waits=True)
    summaries, folds = heard.of("summary"), heard.of("fold")
    assert len(summaries) == len(folds) > 0
    assert all(event.calls and event.summarizer for event in summaries)
    assert {event.session for event in summaries} == {"t1"}, "in the background, too"
    assert sum(event.calls for event in summaries) == sum(event.calls for event in folds)


@pytest.mark.slow
@ways("middleware", both=True)
async def test_recall_and_a_refused_request_are_events(way: Way):
    heard, refused = Heard(), [ValueError("This model's maximum context length is 900 tokens.")]

    def answer(_request: object) -> str:
        if len(heard.of("view")) == 8 and refused:
            raise refused.pop()
        return "Noted."

    def memory_on(store: TranscriptStore) -> TokenMemory:
        return TokenMemory(3_000, callbacks=[heard], recall=Recall(store))

    chat = way.chat(memory_on, thread="t1", model=Talker(answer=answer))
    for question in [*long_turns(10, words=300), "Where is parcel P-7002?"]:
        await chat.ask(question)
    recalled = heard.of("recall")[-1]
    assert recalled.ids
    assert recalled.tokens_after > 0
    (retry,) = heard.of("overflow_retry")
    assert retry.tokens_after < retry.tokens_before
    assert retry.session == "t1"


@pytest.mark.slow
@ways("middleware", "node")
async def test_an_entry_whose_messages_were_edited_is_told_once(way: Way):
    heard = Heard()
    memory = TokenMemory(2_000, callbacks=[heard])
    chat = way.chat(memory, thread="t1")
    await chat.talk(24, waits=True)
    assert not heard.of("redact")
    first = chat.said()[0]
    await chat.ask(first.model_copy(update={"content": "Forget it."}))
    await chat.ask("And now?")
    (told,) = heard.of("redact")
    assert (told.reason, told.thread) == ("edited", "t1")
    assert told.tokens_before > 0


@ways("middleware", "node", "nodes")
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


async def run_events(graph: Any, question: str, config: Any, *, is_async: bool) -> list[Any]:
    said = {"messages": question}
    if not is_async:
        run = graph.stream_events(said, config, version="v3")
        return list(run.extensions["tokenmem"])
    run = await graph.astream_events(said, config, version="v3")
    return [event async for event in run.extensions["tokenmem"]]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_call_of_an_agent_starts_and_ends_in_the_v3_projection(*, is_async: bool):
    too_long = ValueError("This model's maximum context length is 99 tokens.")
    answers = [*[USED] * 4, too_long, USED]
    model = Talker(answer=answers, disable_streaming=True)
    agent = agent_of(TokenMemoryMiddleware(), model=model)
    told = []
    for question in long_turns(5, words=150):
        told += await run_events(agent, question, in_thread(), is_async=is_async)
    kinds = [event["event"] for event in told if event["event"] in {"view", "reply"}]
    assert kinds == ["view", "reply"] * 6
    *replies, refused, last = [event for event in told if event["event"] == "reply"]
    for reply in (*replies, last):
        used = [reply[f"{name}_tokens"] for name in ("input", "cached", "output")]
        assert used == [90, 64, 3]
        assert reply["duration_s"] >= 0
        assert reply["error"] is None
    assert (refused["error"], refused["input_tokens"]) == ("ValueError", None)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_call_of_a_graph_starts_and_ends_in_the_v3_projection(*, is_async: bool):
    memory = TokenMemory(2_000, summarizer=Talker())
    model = Talker(answer=USED, disable_streaming=True)
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": model.invoke(memory_input(state, memory))})
    builder.add_edge(START, memory_nodes(builder, memory))
    graph = builder.compile(transformers=[TokenMemoryTransformer])
    told = await run_events(graph, "Hi.", {}, is_async=is_async)
    view, reply = told
    assert (view["event"], reply["event"]) == ("view", "reply")
    assert (reply["input_tokens"], reply["cached_tokens"]) == (90, 64)


class Runs(BaseCallbackHandler):
    """Keeps the runs: name, parent and metadata of each, what has ended, metadata of models."""

    def __init__(self) -> None:
        self.begun: dict[Any, tuple[str, Any, dict[str, Any]]] = {}
        self.ended: list[Any] = []
        self.models: list[dict[str, Any]] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **known: Any) -> None:
        name = known.get("name") or ""
        self.begun[known["run_id"]] = (name, known["parent_run_id"], known["metadata"] or {})

    def on_chain_end(self, outputs: Any, *, run_id: Any, **_: Any) -> None:
        self.ended.append(run_id)

    on_chain_error = on_chain_end

    def on_chat_model_start(self, serialized: Any, messages: Any, **known: Any) -> None:
        self.models.append(known["metadata"])

    def named(self, name: str) -> list[tuple[Any, Any, dict[str, Any]]]:
        """Return id, parent and metadata of the runs of a name."""
        return [(run, *known) for run, (found, *known) in self.begun.items() if found == name]


@pytest.mark.slow
@ways("chain", "middleware", "node")
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("background", [False, True])
async def test_what_the_memory_does_is_in_the_run_tree(way: Way, *, fails: bool, background: bool):
    """A summary behind the reply is a separate run, which names the run that it was due in."""
    runs = Runs()
    writer = Talker(answer=ValueError("The summarizer is down.") if fails else "All of it.")
    memory = TokenMemory(
        2_000, summarizer=writer, callbacks=[TraceCallbacks()], background=background
    )
    chat = way.chat(memory, thread="t1", user="ann")
    config = {**chat.config, "callbacks": [runs]}
    for question in long_turns(20):
        await chat.invoke(question, config)
        memory.close()
    folds, summaries = runs.named("tokenmem.fold"), runs.named("tokenmem.summary")
    behind = runs.named("tokenmem.background")
    assert folds
    assert summaries
    assert {parent for _, parent, _ in summaries} <= {run for run, _, _ in folds}
    above = {run for run, _, _ in behind} if background else runs.begun.keys()
    assert all(parent in above for _, parent, _ in folds)
    assert {metadata["tokenmem.session"] for _, _, metadata in folds} == {"t1"}
    assert bool(behind) == background
    for _, parent, metadata in behind:
        assert parent is None
        assert (metadata["tokenmem.session"], metadata["tokenmem.user"]) == ("t1", "ann")
        assert metadata["tokenmem.run_id"] in {*map(str, runs.begun)}
    assert {run for run, _, _ in (*folds, *summaries, *behind)} <= {*runs.ended}
    assert len(runs.ended) == len({*runs.ended})


@pytest.mark.slow
@ways("middleware", "chain", both=True)
async def test_the_run_of_the_model_says_how_full_its_request_is(way: Way):
    heard, runs, views = Heard(), Runs(), []
    memory = TokenMemory(2_000, callbacks=[heard], background=False)
    chat = way.chat(memory, thread="t1", system="Be brief.")
    for question in long_turns(20):
        await chat.invoke(question, {**chat.config, "callbacks": [runs]})
        views.append(heard.of("view")[-1])
    folds = heard.of("fold")
    assert len(runs.models) == len(chat.requests) == 20
    tokens = [metadata["tokenmem.tokens"] for metadata in runs.models]
    assert tokens == [view.tokens_after for view in views]
    assert max(tokens) <= min(metadata["tokenmem.limit"] for metadata in runs.models) < 2_000
    assert {m.get("tokenmem.reason") for m in runs.models} == {None, *(f.reason for f in folds)}
    hidden = [metadata["tokenmem.hidden"] for metadata in runs.models]
    assert (hidden[0], hidden[-1]) == (0, sum(fold.summarized for fold in folds))
    assert not [keywords for keywords in chat.model.keywords if "metadata" in keywords]


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
    agent = agent_of(TokenMemoryMiddleware(TokenMemory(2_000)))
    with tracing_context(enabled=True, client=spans):
        for question in long_turns(8, words=200):
            agent.invoke({"messages": question}, in_thread())
    own = [given for given in spans.given if "wrap_model_call" in given["name"]]
    assert own
    assert not [given for given in own if given.get("inputs") or given.get("outputs")]


@pytest.mark.slow
@ways("node", "nodes")
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


@pytest.mark.slow
@ways("middleware", "chain", both=True)
async def test_stats_add_up_what_was_done_in_all_conversations(way: Way):
    heard = Heard()
    memory = TokenMemory(2_000, callbacks=[heard])
    assert memory.stats() == {}
    chat = way.chat(memory)
    for one in (chat, chat.also(thread="t2")):
        await one.talk(8, words=200)
    stats = memory.stats()
    assert stats.keys() == {event.kind for event in heard.events}
    assert stats["view"]["events"] == len(heard.of("view")) >= 16
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
