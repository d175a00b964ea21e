"""The middleware of `create_agent`: budget, streams, sub-agents, interrupts and repairs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    TodoListMiddleware,
    wrap_model_call,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryMiddleware
from langchain_tokenmem.adapters.agents.model_call import OVERFLOW_MESSAGES, is_overflow
from langchain_tokenmem.errors import BudgetExceededError, ConfigurationError
from langchain_tokenmem.memory.engine import Engine
from tests.adapters.strict import run_strictly
from tests.fakes import CharCounter, ListSummarizer, log_text
from tests.legality import problems
from tests.providers import StrictModel
from tests.summarize.models import Scripted

OVERFLOW = "This model's maximum context length is 900 tokens. However, you sent 2000."


@tool
def look(q: str) -> str:
    """Look something up."""
    return f"{q}: " + "a line of the record\n" * 40


def call(number: int, name: str = "look", **args: Any) -> AIMessage:
    given = args or {"q": f"q{number}"}
    words = f"Step {number}: the record has to be looked at before anything else. " * 4
    return AIMessage(words, tool_calls=[{"name": name, "args": given, "id": f"c{number}"}])


def rounds(number: int, start: int = 0) -> list:
    return [*map(call, range(start, start + number)), AIMessage("Done.")]


def memory_of(window: int = 2_000, **keywords: Any) -> TokenMemory:
    return TokenMemory(
        TokenBudget(context_window=window),
        counter=CharCounter(),
        summarizer=keywords.pop("summarizer", None) or ListSummarizer(),
        **keywords,
    )


def agent_of(script: list, *middleware: Any, family: str = "mistral", tools=(look,), **keywords):
    model = StrictModel(family=family, script=script)
    keywords.setdefault("checkpointer", InMemorySaver())
    return model, create_agent(model, list(tools), middleware=list(middleware), **keywords)


def thread(name: str = "t", **more: Any) -> dict:
    return {"configurable": {"thread_id": name}, "recursion_limit": 700, **more}


@pytest.mark.slow
def test_the_budget_holds_before_each_model_call_of_a_tool_loop():
    memory = memory_of()
    model, agent = agent_of(rounds(30), TokenMemoryMiddleware(memory), system_prompt="Be brief.")
    result = agent.invoke({"messages": "Go."}, thread())
    assert len(result["messages"]) == 62
    assert len(model.seen) == 31
    for request in model.seen:
        assert memory.count(request, tools=[look]).tokens <= memory.budget.limit
        assert problems(request) == []
        assert request[0].content.startswith("Be brief.")
        assert request[1].text == "Go." or request[1].text.startswith("Go.\n\n[Notes on")
    assert "conversation_summary" in model.seen[-1][1].text
    assert model.seen[-1][0].content == "Be brief."


@pytest.mark.slow
async def test_the_async_path_sends_the_same_requests_without_blocking_the_loop():
    model, agent = agent_of(rounds(12), TokenMemoryMiddleware(memory_of()))
    agent.invoke({"messages": [HumanMessage("Go.", id="h")]}, thread())
    other, twin = agent_of(rounds(12), TokenMemoryMiddleware(memory_of()))
    with blockbuster_ctx():
        await twin.ainvoke({"messages": [HumanMessage("Go.", id="h")]}, thread())
    said = [[(m.type, m.content) for m in request] for request in model.seen]
    again = [[(m.type, m.content) for m in request] for request in other.seen]
    # Ids of the agent's messages are random and stand in markers, equally long.
    assert [len(r) for r in said] == [len(r) for r in again]
    assert [len(str(r)) for r in said] == [len(str(r)) for r in again]


@pytest.mark.slow
async def test_no_call_blocks_the_loop_neither_behind_the_reply_nor_after_a_refusal():
    notes = "## Goal\nParcel 4711 goes to Bonn and the user wants a receipt by Friday."
    writer = Scripted(answer=lambda _messages: notes)
    memory = memory_of(4_000, summarizer=writer)
    script = [
        *rounds(24)[:-1],
        call(24, "compact_conversation", instruction="Keep the parcel."),
        call(25, "read_message", id="h"),
        *rounds(4, 26)[:-1],
        ContextOverflowError("too long"),
        AIMessage("Done."),
    ]
    model, agent = agent_of(script, TokenMemoryMiddleware(memory, agent_tools=True))
    with blockbuster_ctx():
        result = await agent.ainvoke({"messages": [HumanMessage("Go.", id="h")]}, thread())
        await memory.aclose()
    assert result["messages"][-1].content == "Done."
    assert len(model.seen) == 32
    assert "Keep the parcel." in str(writer.requests)
    assert "keep only what the next steps need" in str(writer.requests)


def test_with_a_checkpointer_a_result_is_shortened_once_and_the_prefix_stays():
    memory = memory_of(4_000)
    model, agent = agent_of([*rounds(12), *rounds(1, 12)], TokenMemoryMiddleware(memory))
    agent.invoke({"messages": "Go."}, thread())
    cuts = agent.get_state(thread()).values["token_memory"]["TokenMemoryMiddleware"]["cuts"]
    assert cuts
    before = model.seen[-1]
    agent.invoke({"messages": "And now?"}, thread())
    assert model.seen[13][: len(before)] == before
    later = agent.get_state(thread()).values["token_memory"]["TokenMemoryMiddleware"]["cuts"]
    assert {key: later[key] for key in cuts} == cuts


@pytest.mark.slow
def test_the_view_only_grows_through_a_turns_tool_loop_but_for_declared_changes():
    model, agent = agent_of(rounds(30), TokenMemoryMiddleware(memory_of()))
    events = list(agent.stream({"messages": "Go."}, thread(), stream_mode="custom"))
    changes = sum(
        later[: len(earlier)] != earlier
        for earlier, later in zip(model.seen, model.seen[1:], strict=False)
    )
    assert 0 < changes <= len(events)
    assert {event["event"] for event in events} == {"compaction", "summary"}


@pytest.mark.slow
def test_thirty_rounds_on_a_large_window_compact_at_most_once():
    @tool
    def read(q: str) -> str:
        """Read a file."""
        return "a line of the file\n" * 900

    memory = memory_of(128_000)
    script = [*[call(n, "read", q=str(n)) for n in range(30)], AIMessage("Done.")]
    model, agent = agent_of(script, TokenMemoryMiddleware(memory), tools=[read])
    events = list(agent.stream({"messages": "Go."}, thread(), stream_mode="custom"))
    assert memory.count(model.seen[-1]).tokens > 60_000
    assert len(events) <= 1


def test_the_middleware_adds_no_superstep():
    def steps(*middleware):
        _, agent = agent_of(rounds(5), *middleware)
        agent.invoke({"messages": "Go."}, thread())
        return len(list(agent.get_state_history(thread()))), sorted(agent.nodes)

    assert steps(TokenMemoryMiddleware(memory_of())) == steps()


@pytest.mark.slow
def test_private_state_is_in_no_input_or_output_but_in_values_and_updates():
    _, agent = agent_of(rounds(10), TokenMemoryMiddleware(memory_of()))
    assert set(agent.get_output_jsonschema()["properties"]) == {"messages", "structured_response"}
    assert set(agent.get_input_jsonschema()["properties"]) == {"messages"}
    updates = list(agent.stream({"messages": "Go."}, thread("u"), stream_mode="updates"))
    assert any("token_memory" in (update.get("model") or {}) for update in updates)
    values = list(agent.stream({"messages": "y"}, thread("w"), stream_mode="values"))
    assert "token_memory" in values[-1]
    assert set(agent.invoke({"messages": "x"}, thread("v"))) == {"messages"}
    assert "token_memory" in agent.get_state(thread("u")).values


class StreamingSummarizer(ListSummarizer):
    """A summarizer with a chat model inside: whose words must not reach the user's stream."""

    def __init__(self) -> None:
        super().__init__()
        self.model = StrictModel(script=[AIMessage("SECRET SUMMARY")] * 99)

    def summarize(self, request):
        text = super().summarize(request)
        self.model.invoke("Summarize.")  # in the plainest way: the graph's callbacks are inherited
        return text

    async def asummarize(self, request):
        text = ListSummarizer.summarize(self, request)
        await self.model.ainvoke("Summarize.")
        return text


MODES = ["messages", "updates", "custom", "values", ["messages", "updates", "custom"]]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_no_summarizer_chunk_is_in_any_stream_mode_of_an_agent(mode, way):
    summarizer = StreamingSummarizer()
    _, agent = agent_of(rounds(12), TokenMemoryMiddleware(memory_of(summarizer=summarizer)))
    given, how = {"messages": "Go."}, {"stream_mode": mode, "subgraphs": True}
    if way == "sync":
        chunks = list(agent.stream(given, thread(), **how))
    else:
        chunks = [chunk async for chunk in agent.astream(given, thread(), **how)]
    assert summarizer.model.seen
    assert chunks
    assert "SECRET" not in repr(chunks)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_model_that_summarizes_streams_nothing_into_an_agents_messages(way):
    """With a real summarizing model behind the reply, at the hard limit and below it."""
    notes = "## Goal\nSECRET parcel 4711 goes to Bonn and the user wants a receipt by Friday."
    writer = Scripted(answer=lambda _messages: notes)
    with memory_of(4_000, summarizer=writer) as memory:
        _, agent = agent_of(rounds(40), TokenMemoryMiddleware(memory))
        how = {"stream_mode": "messages", "subgraphs": True}
        if way == "sync":
            chunks = list(agent.stream({"messages": "Go."}, thread(), **how))
        else:
            chunks = [c async for c in agent.astream({"messages": "Go."}, thread(), **how)]
    assert writer.requests
    state = agent.get_state(thread()).values["token_memory"]["TokenMemoryMiddleware"]
    assert "SECRET" in log_text(state)
    assert len(chunks) >= 41
    assert "SECRET" not in repr(chunks)


@pytest.mark.slow
async def test_agent_events_hold_no_summarizer_chunk_but_tracers_see_the_call():
    class Tracer(BaseCallbackHandler):
        def __init__(self) -> None:
            self.tags: list = []

        def on_chat_model_start(self, serialized, messages, *, tags=None, **kwargs):
            self.tags.append(tags or [])

    summarizer, tracer = StreamingSummarizer(), Tracer()
    _, agent = agent_of(rounds(12), TokenMemoryMiddleware(memory_of(summarizer=summarizer)))
    config = thread(callbacks=[tracer])
    events = [e async for e in agent.astream_events({"messages": "Go."}, config, version="v2")]
    assert summarizer.model.seen
    assert len([t for t in tracer.tags if "nostream" in t]) == len(summarizer.model.seen)
    assert [e for e in events if e["event"] == "on_chat_model_stream"]
    assert "SECRET" not in repr(events)


@pytest.mark.slow
def test_everything_around_the_conversation_is_counted():
    class Answer(BaseModel):
        """An answer, with reasons."""

        text: str
        reasons: list[str]

    def usage(**keywords):
        memory = memory_of(4_000)
        seen = []

        class Probe(Engine):
            def compaction_and_view(self, *given, **around):
                state, view = super().compaction_and_view(*given, **around)
                seen.append(view.usage.parts)
                return state, view

        memory.engine = Probe(**vars(memory.engine))
        script = [AIMessage('{"text": "x", "reasons": []}')]
        if keywords.get("response_format") is Answer or isinstance(
            keywords.get("response_format"), ToolStrategy
        ):
            script = [call(1, "Answer", text="x", reasons=[])]
        _, agent = agent_of(script, TokenMemoryMiddleware(memory), family="openai", **keywords)
        agent.invoke({"messages": "Go."}, thread())
        return seen[0]

    bare = usage(tools=())
    assert bare["tools"] == 0
    assert usage(tools=(look,))["tools"] > 0
    assert usage(tools=(), system_prompt="rule " * 100)["system"] - bare["system"] > 100
    for strategy in (ToolStrategy(Answer), ProviderStrategy(Answer), Answer):
        assert usage(tools=(), response_format=strategy)["system"] - bare["system"] > 20


@pytest.mark.slow
def test_without_arguments_the_agents_own_model_gives_the_budget():
    model = StrictModel(family="openai", script=rounds(20), profile={"max_input_tokens": 3_000})
    middleware = TokenMemoryMiddleware()
    agent = create_agent(model, [look], middleware=[middleware])
    agent.invoke({"messages": "Go."}, thread())
    own = middleware._memory_for(model)
    assert own.budget.context_window == 3_000
    assert max(own.count(request).tokens for request in model.seen) <= own.budget.limit
    assert len(model.seen[-1]) < 30


@pytest.mark.slow
@pytest.mark.parametrize("error", [ContextOverflowError("too long"), ValueError(OVERFLOW)])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_overflow_error_brings_one_compaction_and_one_retry(error, way):
    script = [*rounds(5)[:-1], error, AIMessage("Done.")]
    memory = memory_of(8_000)
    model, agent = agent_of(script, TokenMemoryMiddleware(memory))
    given = {"messages": "Go."}
    result = (
        agent.invoke(given, thread())
        if way == "sync"
        else asyncio.run(agent.ainvoke(given, thread()))
    )
    assert result["messages"][-1].content == "Done."
    refused, second = (memory.count(request).tokens for request in model.seen[-2:])
    assert second <= 0.6 * refused
    assert problems(model.seen[-1]) == []
    state = agent.get_state(thread()).values["token_memory"]["TokenMemoryMiddleware"]
    assert state["summary"]


def test_after_a_second_overflow_the_original_error_is_raised():
    first, second = ContextOverflowError("first"), ContextOverflowError("second")
    model, agent = agent_of([*rounds(5)[:-1], first, second], TokenMemoryMiddleware(memory_of()))
    with pytest.raises(ContextOverflowError, match="first"):
        agent.invoke({"messages": "Go."}, thread())
    assert len(model.seen) == 7


def test_another_error_is_not_retried():
    model, agent = agent_of(
        [ValueError("Rate limit: too many tokens per minute")], TokenMemoryMiddleware(memory_of())
    )
    with pytest.raises(ValueError, match="Rate limit"):
        agent.invoke({"messages": "Go."}, thread())
    assert len(model.seen) == 1


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in",
        "Error code: 400 - {'error': {'code': 'context_length_exceeded'}}",
        "Your input exceeds the context window of this model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "ValidationException: Input is too long for requested model.",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "the request exceeds the available context size. try increasing the context size",
    ],
)
def test_overflow_messages_of_the_providers_are_recognised(words):
    assert is_overflow(ValueError(words))
    assert not is_overflow(ValueError("Invalid API key"))
    assert len({who for who, _ in OVERFLOW_MESSAGES}) >= 10


def test_the_output_is_limited_to_what_is_left_when_asked():
    memory = memory_of(2_000)
    model, agent = agent_of(
        rounds(8), TokenMemoryMiddleware(memory, limit_output=True), family="gemini"
    )
    agent.invoke({"messages": "Go."}, thread())
    for request, settings in zip(model.seen, model.kwargs_seen, strict=True):
        used = memory.count(request, tools=[look]).tokens
        assert 200 <= settings["max_output_tokens"] <= 2_000 - used
    plain, other = agent_of(rounds(1), TokenMemoryMiddleware(memory, limit_output="my_limit"))
    other.invoke({"messages": "Go."}, thread())
    assert "my_limit" in plain.kwargs_seen[0]
    bare, third = agent_of(rounds(1), TokenMemoryMiddleware(memory))
    third.invoke({"messages": "Go."}, thread())
    assert bare.kwargs_seen[0] == {}


@pytest.mark.slow
def test_two_named_middlewares_coexist_and_one_name_twice_is_an_error():
    one = TokenMemoryMiddleware(memory_of(8_000), name="wide")
    two = TokenMemoryMiddleware(memory_of(2_000), name="narrow")
    model, agent = agent_of(rounds(30), one, two)
    agent.invoke({"messages": "Go."}, thread())
    states = agent.get_state(thread()).values["token_memory"]
    assert set(states) == {"wide", "narrow"}
    assert max(two.memory.count(r).tokens for r in model.seen) <= two.memory.budget.limit
    with pytest.raises(AssertionError, match="duplicate"):
        agent_of([], TokenMemoryMiddleware(), TokenMemoryMiddleware())
    with pytest.raises(ConfigurationError, match="name is empty"):
        TokenMemoryMiddleware(name="")


def sub_agent_tool(script: list, middleware: TokenMemoryMiddleware, seen: list, **keywords):
    model, child = agent_of(script, middleware, **keywords)

    @tool
    def ask(q: str) -> str:
        """Ask the assistant."""
        answer = child.invoke({"messages": q})
        seen.append(answer)
        return answer["messages"][-1].content

    return model, ask


@pytest.mark.slow
def test_a_sub_agent_takes_the_parents_policy_with_a_memory_of_its_own():
    middleware = TokenMemoryMiddleware(memory_of())
    answers: list = []
    child, ask = sub_agent_tool(
        [*rounds(12), *rounds(2, 20)], middleware, answers, checkpointer=None
    )
    script = [call(0, "ask", q="First?"), call(1, "ask", q="Second?"), AIMessage("Done.")]
    model, agent = agent_of(script, middleware, tools=[ask])
    result = agent.invoke({"messages": "Parent's question."}, thread())
    limit = middleware.memory.budget.limit
    assert max(middleware.memory.count(r).tokens for r in child.seen) <= limit
    assert "conversation_summary" in str(child.seen[12])
    second = child.seen[13]
    assert [m.content for m in second] == ["Second?"]
    assert "Parent's question" not in str(child.seen)
    assert "a line of the record" not in str(model.seen)
    assert "token_memory" not in answers[0]
    # The parent has each message once.
    ids = [m.id for m in result["messages"]]
    assert len(ids) == len(set(ids)) == 6
    assert agent.get_state(thread()).values.get("token_memory") in (None, {})


@pytest.mark.slow
def test_two_sub_agents_on_one_thread_keep_separate_memories():
    """Each has checkpoints of its own in the thread, and goes on where it stopped."""
    middleware = TokenMemoryMiddleware(memory_of())
    saver = InMemorySaver()
    builder = StateGraph(MessagesState)
    models = {}
    for name in ("ann", "bob"):
        words = [AIMessage(f"{name} says {n}. " * 30) for n in range(20)]
        models[name], child = agent_of(words, middleware, tools=[], checkpointer=True)

        def ask(state: MessagesState, child: Any = child, name: str = name) -> dict:
            answer = child.invoke({"messages": f"Question {len(state['messages'])} to {name}?"})
            return {"messages": [answer["messages"][-1]]}

        builder.add_node(name, ask)
    builder.add_edge(START, "ann")
    builder.add_edge("ann", "bob")
    graph = builder.compile(checkpointer=saver)
    for _ in range(20):
        graph.invoke({"messages": "Go."}, thread())
    for name, other in (("ann", "bob"), ("bob", "ann")):
        last = str(models[name].seen[-1])
        assert "conversation_summary" in last
        assert f"{name} says" in last
        assert other not in last
    held = {
        saved.config["configurable"]["checkpoint_ns"]
        for saved in saver.list(thread())
        if "token_memory" in saved.checkpoint["channel_values"]
    }
    assert len(held) == 2
    saver.delete_thread("t")
    assert list(saver.list(thread())) == []


def test_a_sub_agents_long_result_is_cut_in_the_view_and_whole_in_the_state():
    answers: list = []
    long = AIMessage("begin " + "finding " * 4_000 + "end")
    _, ask = sub_agent_tool([long], TokenMemoryMiddleware(memory_of(50_000)), answers)
    middleware = TokenMemoryMiddleware(memory_of(), agent_tools=True)
    model, agent = agent_of([call(0, "ask", q="?"), AIMessage("Done.")], middleware, tools=[ask])
    result = agent.invoke({"messages": "Go."}, thread())
    whole, shown = result["messages"][2], model.seen[-1][2]
    assert len(whole.content) > 30_000
    assert len(shown.content) < 6_000
    assert "left out; full text: message " in shown.content


@pytest.mark.slow
def test_works_with_pii_retries_todo_and_sees_their_system_text():
    memory = memory_of(6_000)
    script = [ValueError("overloaded"), call(0, "write_todos", todos=[]), *rounds(30, 1)]
    model, agent = agent_of(
        script,
        PIIMiddleware("email", strategy="redact"),
        ModelRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False),
        TodoListMiddleware(),
        TokenMemoryMiddleware(memory),
        system_prompt="Be brief.",
    )
    result = agent.invoke({"messages": "Write to anna@example.com."}, thread())
    assert result["messages"][-1].content == "Done."
    assert "anna@example.com" not in str(model.seen)
    for request in model.seen:
        assert memory.count(request).tokens <= memory.budget.limit
        assert "write_todos" in request[0].text
    assert agent.get_state(thread()).values["token_memory"]


@pytest.mark.slow
def test_interrupt_and_resume_before_a_tool_call_keep_the_pair():
    memory = memory_of()
    model, agent = agent_of(
        [*rounds(16)[:-1], call(16, "look", q="danger"), AIMessage("Done.")],
        HumanInTheLoopMiddleware(interrupt_on={"look": {"allowed_decisions": ["approve"]}}),
        TokenMemoryMiddleware(memory),
    )
    result = agent.invoke({"messages": "Go."}, thread())
    stops = 0
    while "__interrupt__" in result:
        stops += 1
        approve = Command(resume={"decisions": [{"type": "approve"}]})
        result = agent.invoke(approve, thread())
    assert stops == 17
    assert result["messages"][-1].content == "Done."
    for request in model.seen:
        assert problems(request) == []
    assert "danger" in str(model.seen[-1])
    assert "conversation_summary" in model.seen[-1][0].text


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_an_interrupt_inside_one_of_two_parallel_calls_keeps_both_pairs(way):
    ran: list[str] = []

    @tool
    def ask(q: str) -> str:
        """Ask the user."""
        answer = interrupt(q)
        ran.append(q)
        return f"{answer}: " + "a line of the record\n" * 40

    def both(number: int) -> AIMessage:
        keys = [f"ask{number}", f"look{number}"]
        return AIMessage(
            "Two things at once. " * 8,
            tool_calls=[
                {"name": "ask", "args": {"q": f"May I {number}?"}, "id": keys[0]},
                {"name": "look", "args": {"q": f"q{number}"}, "id": keys[1]},
            ],
        )

    memory = memory_of()
    script = [*map(both, range(8)), AIMessage("Done.")]
    model, agent = agent_of(script, TokenMemoryMiddleware(memory), tools=[ask, look])
    given: Any = {"messages": "Go."}
    for _ in range(9):
        if way == "sync":
            result = agent.invoke(given, thread())
        else:
            result = await agent.ainvoke(given, thread())
        given = Command(resume="yes")
    assert result["messages"][-1].content == "Done."
    assert ran == [f"May I {n}?" for n in range(8)]
    assert len(model.seen) == 9
    for number, request in enumerate(model.seen[1:]):
        assert problems(request) == []
        assert memory.count(request, tools=[ask, look]).tokens <= memory.budget.limit
        answers = [m.tool_call_id for m in request if isinstance(m, ToolMessage)]
        assert answers[-2:] == [f"ask{number}", f"look{number}"]
    assert "conversation_summary" in model.seen[-1][0].text


def test_a_tool_call_without_a_result_does_not_block_the_thread(caplog):
    model, agent = agent_of([AIMessage("Hello.")] * 3, TokenMemoryMiddleware(memory_of()))
    broken = [HumanMessage("Go."), call(1), HumanMessage("Are you there?")]
    agent.invoke({"messages": broken}, thread())
    agent.invoke({"messages": "And now?"}, thread())
    results = [m for m in model.seen[-1] if isinstance(m, ToolMessage)]
    assert "interrupted" in results[0].content
    assert len([r for r in caplog.records if "have no result" in r.message]) == 1


@pytest.mark.slow
def test_explain_gives_the_list_that_the_model_received():
    memory = memory_of()
    model, agent = agent_of(rounds(20), TokenMemoryMiddleware(memory), system_prompt="Be brief.")
    agent.invoke({"messages": "Go."}, thread())
    values = agent.get_state(thread()).values
    state = values["token_memory"]["TokenMemoryMiddleware"]
    told = memory.for_model(model).explain(
        values["messages"][:-1], state, system="Be brief.", tools=[look]
    )
    assert "conversation_summary" in model.seen[-1][1].text
    assert model.seen[-1][0].content == "Be brief."
    assert told.view.messages == model.seen[-1]
    assert told.profile == "mistral"


@pytest.mark.slow
@pytest.mark.parametrize(("family", "provider"), [("anthropic", "anthropic"), ("gemini", "google")])
def test_signed_blocks_and_extras_come_back_from_a_checkpoint_unchanged(family, provider):
    signed = call(1).model_copy(
        update={
            "content": [
                {"type": "thinking", "thinking": "Let me see.", "signature": "RXJy/+=="},
                {"type": "redacted_thinking", "data": "b3BhcXVl"},
                {"type": "text", "text": "I look.", "extras": {"signature": "Q2lw"}},
            ],
            "additional_kwargs": {"__gemini_function_call_thought_signatures__": {"c1": "c2ln"}},
            "response_metadata": {"model_provider": provider},
        }
    )
    script = [*rounds(12)[2:-1], signed, AIMessage("Well."), AIMessage("Done.")]
    model, agent = agent_of(script, TokenMemoryMiddleware(memory_of()), family=family)
    agent.invoke({"messages": "Go."}, thread())
    agent.invoke({"messages": "And now?"}, thread())
    request = model.seen[-1]
    assert "conversation_summary" in request[0].text
    # What Anthropic bound to a request that is no longer sent is left out of the view.
    blocks = signed.content[2 if provider == "anthropic" else 0 :]
    shown = [m for m in request if isinstance(m, AIMessage) and m.content == blocks][-1]
    stored = agent.get_state(thread()).values["messages"]
    assert signed.content in [m.content for m in stored]
    assert shown.additional_kwargs == signed.additional_kwargs
    assert shown.tool_calls == signed.tool_calls


@pytest.mark.slow
def test_system_messages_in_the_state_stay_and_do_not_pile_up():
    memory = memory_of()
    model, agent = agent_of(
        [AIMessage("ok " * 60)] * 100, TokenMemoryMiddleware(memory), system_prompt="Be brief."
    )
    agent.invoke({"messages": [SystemMessage("Speak German.", id="s"), "Go."]}, thread())
    for number in range(99):
        agent.invoke({"messages": f"Question {number}?"}, thread())
    held = agent.get_state(thread()).values["messages"]
    assert [m.content for m in held if m.type == "system"] == ["Speak German."]
    for request in model.seen:
        assert [m.type for m in request].count("system") == 1
        assert request[0].text.startswith("Be brief.\n\nSpeak German.")
    assert len(held) == 201


@pytest.mark.slow
def test_a_fork_shows_nothing_of_the_later_branch():
    memory = memory_of()
    model, agent = agent_of([AIMessage("ok " * 60)] * 60, TokenMemoryMiddleware(memory))
    early = None
    for number in range(40):
        agent.invoke({"messages": f"{'Red' if number > 10 else 'Blue'} {number}?"}, thread())
        early = agent.get_state(thread()) if number == 10 else early
    assert "Red" in str(model.seen[-1][0])
    agent.invoke({"messages": "Green?"}, early.config)
    fork = str(model.seen[-1])
    assert "Green" in fork
    assert "Blue 10" in fork
    assert "Red" not in fork


@pytest.mark.slow
def test_strict_msgpack_without_a_warning(tmp_path):
    run_strictly(
        tmp_path,
        "from tests.adapters.agents.test_middleware import *\n"
        "model, agent = agent_of([*rounds(12), *rounds(3, 12)], "
        "TokenMemoryMiddleware(memory_of()))\n"
        "agent.invoke({'messages': 'Go.'}, thread())\n"
        "agent.invoke({'messages': 'More.'}, thread())\n"
        "state = agent.get_state(thread()).values['token_memory']\n"
        "assert state['TokenMemoryMiddleware']['summary']['covered'] > 3\n"
        "assert all(len(r) < 30 for r in model.seen)\n",
    )


@pytest.mark.slow
def test_automatic_compaction_can_be_turned_off_and_requests_still_fit():
    memory = memory_of()
    model, agent = agent_of(rounds(20), TokenMemoryMiddleware(memory, automatic=False))
    agent.invoke({"messages": "Go."}, thread())
    assert memory.summarizer.requests == []
    assert max(memory.count(r).tokens for r in model.seen) <= memory.budget.limit
    assert "left out here to fit" in str(model.seen[-1][0].content)


def test_fixed_parts_over_the_limit_raise_before_any_model_call():
    model, agent = agent_of([], TokenMemoryMiddleware(memory_of()), system_prompt="rule " * 4_000)
    with pytest.raises(BudgetExceededError, match="system"):
        agent.invoke({"messages": "Go."}, thread())
    assert model.seen == []


def test_a_middleware_behind_it_is_documented_to_be_uncounted():
    @wrap_model_call
    def adds(request, handler):
        more = SystemMessage(f"{request.system_prompt or ''} MORE")
        return handler(request.override(system_message=more))

    first, agent = agent_of([AIMessage("ok")], adds, TokenMemoryMiddleware(memory_of()))
    agent.invoke({"messages": "Go."}, thread())
    assert "MORE" in first.seen[0][0].content


@pytest.mark.slow
def test_previous_response_ids_are_warned_of_once_the_conversation_is_compacted(caplog):
    class Stateful(StrictModel):
        use_previous_response_id: bool = True

    def warned(number: int) -> int:
        caplog.clear()
        model = Stateful(family="openai", script=rounds(number))
        agent = create_agent(model, [look], middleware=[TokenMemoryMiddleware(memory_of())])
        agent.invoke({"messages": "Go."}, thread())
        return len([r for r in caplog.records if "use_previous_response_id" in r.message])

    assert (warned(1), warned(20)) == (0, 1)
