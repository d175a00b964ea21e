"""The middleware of `create_agent`: refusals of the model, sub-agents, interrupts, neighbours."""

import asyncio
import threading
from itertools import count
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    ModelFallbackMiddleware,
    SummarizationMiddleware,
    wrap_model_call,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import create_model

from langchain_tokenmem import Recall, TokenMemory, TokenMemoryMiddleware, TokenMemorySaver
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.summarizers import Summary
from tests.adapters.integrations import (
    agent_of,
    agent_with,
    call,
    contents,
    graph_with,
    look,
    rounds,
    state_of,
    texts,
    thread,
    turns,
)
from tests.fakes import (
    CharCounter,
    ListSummarizer,
    called,
    entries_of,
    log_text,
    memory_of,
    newest_entry,
)
from tests.providers import StrictModel, problems
from tests.summarize.models import Scripted

GO = {"messages": "Go."}


@pytest.mark.slow
def test_the_middleware_adds_no_superstep_and_its_state_is_no_input_or_output():
    def steps(*middleware):
        _, agent = agent_of(rounds(10), *middleware)
        updates = list(agent.stream(GO, thread(), stream_mode="updates"))
        written = any("token_memory" in (update.get("model") or {}) for update in updates)
        assert written == bool(middleware)
        schemas = agent.get_input_jsonschema(), agent.get_output_jsonschema()
        assert [{*one["properties"]} - {"structured_response"} for one in schemas] == [
            {"messages"}
        ] * 2
        return len(list(agent.get_state_history(thread()))), sorted(agent.nodes)

    assert steps(TokenMemoryMiddleware(memory_of())) == steps()


def test_another_summarizer_is_reported_at_the_first_call_and_once(caplog):
    never = SummarizationMiddleware(StrictModel(script=[]), trigger=("messages", 10**6))
    for other, times in ((ContextEditingMiddleware(), 0), (never, 1)):
        middleware = [other, TokenMemoryMiddleware(memory_of())]
        agent = create_agent(StrictModel(family="mistral"), middleware=middleware)
        for _ in range(2):
            agent.invoke(GO)
        assert caplog.text.count("Another summarizer in the agent's middleware") == times


Answer = create_model("Answer", text=(str, ...), __doc__="An answer, with reasons. " * 400)


@tool(description="Look. " * 2_000)
def wordy(q: str) -> str:
    return q


@pytest.mark.parametrize(
    "fixed",
    [
        {"system_prompt": "rule " * 4_000},
        {"tools": [wordy]},
        {"response_format": ToolStrategy(Answer)},
        {"response_format": ProviderStrategy(Answer)},
    ],
    ids=["system", "tools", "tool strategy", "provider strategy"],
)
def test_fixed_parts_over_the_limit_are_an_error_before_any_model_call(fixed):
    model, agent = agent_of([], TokenMemoryMiddleware(memory_of()), **fixed)
    with pytest.raises(BudgetExceededError, match="system"):
        agent.invoke(GO, thread())
    assert model.seen == []


# Refusals of the model

OVERFLOWS = [
    ContextOverflowError("too long"),
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
    "The decoder prompt (length 17772) is longer than the maximum model length of 16384.",
    "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
    "The model returned: Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
    "However, the model is loaded with context length of only 4096 tokens",
    "Please reduce input. Current length is 9000 while limit is 8192",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000",
    "Input validation error: `inputs` must have less than 4096 tokens. Given: 4545",
]


@pytest.mark.slow
@pytest.mark.parametrize("error", OVERFLOWS, ids=lambda error: str(error)[:30])
def test_an_overflow_error_brings_one_compaction_and_one_retry(error):
    memory = memory_of(8_000)
    refusal = ValueError(error) if isinstance(error, str) else error
    script = [*rounds(5)[:-1], refusal, AIMessage("Done.")]
    model, agent = agent_of(script, TokenMemoryMiddleware(memory))
    if isinstance(error, str):
        result = agent.invoke(GO, thread())
    else:
        result = asyncio.run(agent.ainvoke(GO, thread()))
    assert result["messages"][-1].content == "Done."
    refused, second = (memory.count(request).tokens for request in model.seen[-2:])
    assert second <= 0.6 * refused
    assert problems(model.seen[-1]) == []
    assert state_of(agent)["summary"]


@pytest.mark.parametrize(
    ("errors", "calls"),
    [
        ([ContextOverflowError("first"), ContextOverflowError("second")], 7),
        ([ValueError("first: Rate limit: too many tokens per minute")], 6),
        ([ValueError("first: Invalid API key")], 6),
    ],
)
def test_a_second_overflow_or_another_error_is_raised(errors, calls):
    model, agent = agent_of([*rounds(5)[:-1], *errors], TokenMemoryMiddleware(memory_of()))
    with pytest.raises(type(errors[0]), match="first"):
        agent.invoke(GO, thread())
    assert len(model.seen) == calls


# Several memories, and sub-agents


@pytest.mark.slow
def test_without_a_memory_the_agents_own_model_writes_the_summaries():
    def answer(messages):
        notes = "## Goal\nThe user counts questions, and wants a reply to each of them."
        return notes if "at most" in str(messages[-1].content) else "Yes."

    model = Scripted(profile={"max_input_tokens": 4_000}, answer=answer)
    agent = create_agent(model, middleware=[TokenMemoryMiddleware()], checkpointer=InMemorySaver())
    agent.invoke({"messages": turns(300)}, thread())
    assert newest_entry(state_of(agent))["model"] == "scripted"


@pytest.mark.slow
def test_a_summary_made_for_an_attempt_that_failed_is_not_made_again(caplog):
    made = []
    for script in ([AIMessage("ok " * 100)] * 20, [ConnectionError("down")] * 20):
        memory = memory_of()
        other = StrictModel(family="mistral", script=[AIMessage("ok " * 100)] * 20)
        _, agent = agent_of(script, ModelFallbackMiddleware(other), TokenMemoryMiddleware(memory))
        for number in range(20):
            agent.invoke({"messages": f"Question {number}? " + "why " * 60}, thread())
        made.append(len(memory.summarizer.requests))
    assert made[0] == made[1] > 1
    assert "was not kept" not in caplog.text


@pytest.mark.parametrize(
    ("made_by", "background", "stops_in"),
    [
        (agent_with, True, "the model"),
        (agent_with, False, "the model"),
        (agent_with, False, "the memory"),
        (graph_with, False, "the memory"),
    ],
)
async def test_a_summary_of_a_call_that_is_cancelled_is_not_made_again(
    made_by, background, stops_in, caplog
):
    """A user presses "Stop" once for each summary: where it is counted, or sent."""
    made, stopped, loop = [], [], asyncio.get_running_loop()

    class Writer(ListSummarizer):
        is_quick = False

        def summarize(self, request):
            made.append(texts(request.messages))
            return Summary(f"- Summary {len(made)}.", "list", "1")

    def stop(place, text):
        if place == stops_in and len(stopped) < len(made) and f"Summary {len(made)}." in text:
            stopped.append(loop.call_soon_threadsafe(turn.cancel))

    class Stopping(CharCounter):
        def text(self, text):
            stop("the memory", text)
            return super().text(text)

    counting = {"counter": Stopping(), "summarizer": Writer()}
    memory = TokenMemory(1_000, background=background, **counting)
    model, agent = made_by(memory)
    model.answer = lambda messages: stop("the model", contents(messages)) or "Yes."
    for number in range(99):
        question = {"messages": f"Question {number}? " + "why " * 60}
        turn = asyncio.create_task(agent.ainvoke(question, thread()))
        await asyncio.wait([turn])
        for each in threading.enumerate():
            if each.name == "tokenmem":
                await asyncio.to_thread(each.join)
        memory.close()
        if len(made) == 3:
            break
    asked = [text for batch in made for text in batch if text.startswith("Question")]
    assert len({*asked}) == len(asked)
    assert len(made) == 3
    assert len(stopped) == 3 if stops_in == "the memory" else stopped
    assert "was not kept" not in caplog.text


@pytest.mark.slow
def test_a_sub_agent_with_the_parents_middleware_has_a_memory_of_its_own():
    middleware, answers = TokenMemoryMiddleware(memory_of()), []
    child_model, child = agent_of([*rounds(12), *rounds(2, 20)], middleware, checkpointer=None)

    @tool
    def ask(q: str) -> str:
        """Ask the assistant."""
        answers.append(child.invoke({"messages": q}))
        return answers[-1]["messages"][-1].content

    script = [call(0, "ask", q="First?"), call(1, "ask", q="Second?"), AIMessage("Done.")]
    model, agent = agent_of(script, middleware, tools=[ask])
    result = agent.invoke({"messages": "Parent's question."}, thread())
    limit = middleware.memory.budget.limit
    assert max(middleware.memory.count(r).tokens for r in child_model.seen) <= limit
    assert "conversation_summary" in str(child_model.seen[12])
    assert [m.content for m in child_model.seen[13]] == ["Second?"]
    assert "Parent's question" not in str(child_model.seen)
    assert "a line of the record" not in str(model.seen)
    assert "token_memory" not in answers[0]
    ids = [m.id for m in result["messages"]]
    assert len(ids) == len(set(ids)) == 6


# Interrupts, system messages, options


def test_system_messages_in_the_state_stay_and_do_not_pile_up():
    script = [AIMessage("ok " * 200)] * 12
    model, agent = agent_of(script, TokenMemoryMiddleware(memory_of()), system_prompt="Be brief.")
    for number in range(12):
        rule = SystemMessage("Speak German.", id="s")
        agent.invoke({"messages": [rule, HumanMessage(f"Question {number}?")]}, thread())
    held = agent.get_state(thread()).values["messages"]
    assert [m.content for m in held if m.type == "system"] == ["Speak German."]
    for request in model.seen:
        assert [m.type for m in request].count("system") == 1
        assert request[0].text.startswith("Be brief.\n\nSpeak German.")
    assert "conversation_summary" in str(model.seen[-1])


def changing(change: Any) -> Any:
    """Return a middleware that changes the messages of each request."""

    @wrap_model_call
    def changed(request, handler):
        return handler(request.override(messages=change([*request.messages])))

    return changed


@pytest.mark.slow
@pytest.mark.parametrize(("place", "key"), [(0, "profile"), (-1, None)])
def test_what_other_middleware_adds_to_one_request_is_sent_and_not_remembered(store, place, key):
    numbers = count()

    def with_profile(messages):
        at = place % len(messages)
        profile = HumanMessage(f"PROFILE {next(numbers)}", id=key)
        messages[at:at] = [HumanMessage("For example?"), AIMessage("So."), profile]
        return messages

    memory = memory_of(recall=Recall(store))
    script = [AIMessage(f"{number} " + "ok " * 200) for number in range(12)]
    ours = TokenMemoryMiddleware(memory, store=store)
    model, agent = agent_of(script, changing(with_profile), ours, family="anthropic")
    for number in range(12):
        agent.invoke({"messages": f"Question {number}?"}, thread())
    for number, request in enumerate(model.seen):
        said = [message.text for message in request]
        assert [text for text in said if "PROFILE" in text] == [f"PROFILE {number}"]
        at = said.index(f"PROFILE {number}")
        assert said[at - 2 : at] == ["For example?", "So."]
        assert f"Question {number}?" in said[-1]
        assert memory.count(request).tokens <= memory.budget.limit
        assert not problems(request)
    assert "conversation_summary" in str(model.seen[-1])
    assert "PROFILE" not in log_text(state_of(agent))
    assert not [hit.text for hit in memory.recall.search("PROFILE", session_id="t", k=20)]


@pytest.mark.slow
@pytest.mark.parametrize("on_remove", ["keep", "hide"])
def test_a_request_that_other_middleware_trims_clears_no_chat(store, on_remove):
    def newest_only(messages):
        return messages[-1:] if messages[-1].text == "Only this, please." else messages

    saver = TokenMemorySaver(store, on_remove=on_remove)
    middleware = [changing(newest_only), TokenMemoryMiddleware(memory_of())]
    _, agent = agent_of([AIMessage("ok " * 100)] * 22, *middleware, checkpointer=saver)
    for number in range(20):
        agent.invoke({"messages": f"Question {number}? " + "why " * 60}, thread())
    before = log_text(state_of(agent))
    agent.invoke({"messages": "Only this, please."}, thread())
    assert log_text(state_of(agent)) == before != ""


def with_odd_questions(messages):
    return [HumanMessage("half \ud800 a pair"), HumanMessage(" ", name="Ann"), *messages]


def with_a_result(messages):
    return [*messages[:2], ToolMessage("Cancelled.", tool_call_id="c1"), *messages[2:]]


@pytest.mark.parametrize(
    ("change", "said", "sent"),
    [
        (with_odd_questions, [], ["half \ufffd a pair", "[empty message]", "Stop."]),
        (
            with_a_result,
            [HumanMessage("Look."), call(1)],
            ["Look.", call(1).text, "Cancelled.", "Stop."],
        ),
    ],
)
def test_what_other_middleware_adds_is_adapted_to_the_provider_and_stays_in_place(
    change, said, sent
):
    ours = TokenMemoryMiddleware(memory_of())
    model, agent = agent_of([AIMessage("Yes.")], changing(change), ours, family="anthropic")
    agent.invoke({"messages": [*said, HumanMessage("Stop.")]}, thread())
    assert [m.text for m in model.seen[0]] == sent


def test_automatic_compaction_can_be_turned_off_and_requests_still_fit():
    memory = memory_of()
    model, agent = agent_of(rounds(12), TokenMemoryMiddleware(memory, automatic=False))
    agent.invoke(GO, thread())
    assert memory.summarizer.requests == []
    assert max(memory.count(r).tokens for r in model.seen) <= memory.budget.limit
    assert "left out here to fit" in str(model.seen[-1][0].content)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "times"), [(1, 0), (16, 1)])
def test_previous_response_ids_are_warned_of_once_the_conversation_is_compacted(
    number, times, caplog
):
    class Stateful(StrictModel):
        use_previous_response_id: bool = True

    model = Stateful(family="openai", script=rounds(number))
    create_agent(model, [look], middleware=[TokenMemoryMiddleware(memory_of())]).invoke(GO)
    assert len([r for r in caplog.records if "use_previous_response_id" in r.message]) == times


# Beside other middleware


HIDDEN = "/z.key"


def clearing(trigger: int, *, clear_inputs: bool = False, **keywords: Any):
    edit = ClearToolUsesEdit(trigger=trigger, keep=1, clear_tool_inputs=clear_inputs)
    clears = ContextEditingMiddleware(edits=[edit], token_counter=len)
    return agent_of([], clears, TokenMemoryMiddleware(memory_of(1_200, **keywords)))


def files(count: int) -> list:
    """Return a conversation in which the second question names a secret."""
    found: list = []
    for n in range(count):
        word = f"the file {HIDDEN}" if n == 1 else "the harbour"
        found += [
            HumanMessage(f"We decided to name {word} on crate {n}.", id=f"h{n}"),
            *called(n, "read", {"path": f"f{n}.py"}, f"def parse_{n}(): ... " * 6),
            AIMessage("That is so. " * 16, id=f"a{n}"),
        ]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trigger", "clear_inputs"), [(2, False), (50, True)], ids=["before the entry", "behind it"]
)
def test_an_edit_is_noticed_beside_results_that_are_cleared(trigger, clear_inputs):
    model, agent = clearing(trigger, clear_inputs=clear_inputs, background=False)
    agent.invoke({"messages": files(12)}, thread())
    before, log = entries_of(state_of(agent)), log_text(state_of(agent))
    assert HIDDEN in log
    assert "parse_0" in log, "the summary is of what the tools said"
    assert "cleared" not in log
    for n in (12, 13):
        agent.invoke({"messages": [HumanMessage("The harbour.", id=f"h{n}")]}, thread())
        assert entries_of(state_of(agent))[: len(before)] == before, "clearing is no edit"
    edit = HumanMessage("We decided to name the [REDACTED] on crate 1.", id="h1")
    agent.update_state(thread(), {"messages": [edit]})
    for words in ("And now?", "And then?"):
        agent.invoke({"messages": words}, thread())
        assert HIDDEN not in str(model.seen[-1]) + str(state_of(agent))
        assert entries_of(state_of(agent))[0]["reason"] == "edited"


def test_a_request_has_nothing_of_what_was_cleared_and_recall_finds_it(store):
    recall = Recall(store)
    model, agent = clearing(2, recall=recall)
    agent.invoke({"messages": files(4)}, thread())
    request = str(model.seen[-1])
    assert "parse_0" not in request
    assert "[cleared]" in request
    assert "parse_3" in request
    held = str(agent.get_state(thread()).values["messages"])
    assert "parse_0" in held
    assert "parse_0" in str(store.get("t", "result0").content)
    assert recall.search("parse_0", session_id="t")


@pytest.mark.slow
def test_a_call_is_explained_under_the_settings_of_its_thread(store):
    middleware = TokenMemoryMiddleware(TokenMemory(8_000))
    model = StrictModel(family="mistral")
    agent = create_agent(model, middleware=[middleware], checkpointer=TokenMemorySaver(store))
    agent.invoke(GO, thread())
    assert middleware.explain(agent, thread()).limit > 2_000
    store.set_settings(session_id="t", budget=2_000)
    agent.invoke(GO, thread())
    assert middleware.explain(agent, thread()).limit < 2_000
