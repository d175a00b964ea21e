"""Summaries by a model, with scripted models that fail in many ways."""

import asyncio
import threading

import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.coerce import as_summarizer
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.summarize.prompts import render_message
from langchain_tokenmem.types import RequestRules
from tests.fakes import CharCounter, entries_of, memory_of, tool_round
from tests.providers import CHECKS, StrictModel
from tests.summarize import models
from tests.summarize.models import Scripted, parts_of

count = CharCounter().text


QUESTION, ANSWER = "question {n} about file src/mod{n}.py ", "answer {n}: it is fixed in v1.{n}.0 "


def talk(turns, words=30):
    found = []
    for n in range(turns):
        found.append(HumanMessage(QUESTION.format(n=n) * (words // 6), id=f"h{n}"))
        found.append(AIMessage(ANSWER.format(n=n) * (words // 6), id=f"a{n}"))
    return found


def request_of(messages, max_tokens=400, **more):
    return SummaryRequest(messages, max_tokens, count, **more)


@pytest.mark.slow
@pytest.mark.parametrize("answer", models.HOSTILE.values(), ids=models.HOSTILE)
def test_failed_blank_cut_off_and_off_topic_summaries_are_refused_and_history_kept(answer):
    model = Scripted(answer=answer)
    memory = memory_of(summarizer=model)
    messages = [*talk(20), HumanMessage("and now?", id="now")]
    state = memory.compact(messages)
    assert len(model.requests) == 3
    [entry] = entries_of(state)
    assert (entry["model"], len(entry["failures"])) == ("extractive", 3)
    assert "src/mod14.py" in entry["text"]
    view = memory.view(messages, state)
    assert view.usage.input_tokens <= memory.budget.limit
    assert any("scripted" in warning for warning in view.warnings)
    for bad in ("provider down", "Shall I go on", "long thoughts", "and so on and so on"):
        assert bad not in str(view.messages)
    assert messages == [*talk(20), HumanMessage("and now?", id="now")]


@pytest.mark.slow
def test_three_failed_attempts_bring_a_cool_down_before_the_model_is_tried_again():
    clock, model = [0.0], Scripted(answer=models.raising)
    writer = ModelSummarizer(model, cool_down_s=60, clock=lambda: clock[0])
    for _ in range(5):
        assert writer.summarize(request_of(talk(10))).model == "extractive"
    assert len(model.requests) == 3
    clock[0], model.answer = 61.0, models.faithful
    assert writer.summarize(request_of(talk(11))).model == "scripted"
    assert len(model.requests) == 4


@pytest.mark.slow
def test_all_evicted_text_reaches_the_summarizer_once_in_prompts_that_fit():
    model = Scripted(profile={"max_input_tokens": 2_000})
    long = [*talk(60, 60), ToolMessage("reading\n" * 3_000, tool_call_id="c", name="cat", id="t")]
    summary = ModelSummarizer(model).summarize(request_of(long, 300))
    assert summary.model == "scripted"
    for prompt in model.requests:
        assert sum(count(str(m.content)) + 4 for m in prompt) + 300 <= 2_000
    read = "".join(
        parts_of(prompt)[1] for prompt in model.requests if "<transcript>" in str(prompt)
    )
    whole = "".join(map(render_message, long))
    assert read.replace("\n", "") == whole.replace("\n", "")


def test_the_summarizer_prompt_holds_the_words_without_reasoning_metadata_or_base64():
    thought = "PRIVATE"
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9_000}}
    broken = {"name": "write", "args": '{"path": "log', "id": "c", "error": None}
    seen = [
        {"type": "thinking", "thinking": thought, "signature": thought},
        {"type": "redacted_thinking", "data": thought},
        "I see a cat.",
    ]
    hidden = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": thought},
        {"type": "reasoning", "reasoning": thought, "extras": {"signature": thought}},
    ]
    more = {"reasoning_content": thought, "reasoning": {"text": thought}}
    zoom = {"name": "zoom", "args": {"level": 3}, "id": "call-77"}
    messages = [
        HumanMessage([{"type": "text", "text": "look at this"}, picture], id="secret-id-1"),
        AIMessage(seen, response_metadata={"model_name": "m"}, tool_calls=[zoom]),
        ToolMessage("zoomed", tool_call_id="call-77", name="zoom", artifact={"raw": "BYTES"}),
        AIMessage(hidden, additional_kwargs=more, invalid_tool_calls=[broken]),
    ]
    model = Scripted()
    ModelSummarizer(model).summarize(request_of(messages))
    assert parts_of(model.requests[0])[1] == (
        "User: look at this\n  [image]\n\n"
        'Assistant: I see a cat.\n  calls zoom({"level": 3})\n\n'
        "Tool result of zoom: zoomed\n\n"
        'Assistant: calls write({"path": "log)'
    )
    assert thought not in str(model.requests)


def test_a_bound_model_summarizes_without_its_tools_and_is_not_changed():
    model = Scripted()
    bound = model.bind_tools([{"name": "t"}], tool_choice="any", stop=["x"], response_format={})
    ModelSummarizer(bound).summarize(request_of(talk(5)))
    assert model.keywords == [{}]
    assert set(bound.kwargs) == {"tools", "tool_choice", "stop", "response_format"}


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(CHECKS))
@pytest.mark.parametrize("last", ["human", "ai", "tool"])
def test_strict_providers_accept_every_request_of_a_summarizer(family, last):
    """Parts, the notes of parts, a second attempt after a refused answer, an earlier summary."""
    said = [
        *talk(120, words=12),
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
        *(ToolMessage("done", tool_call_id="c"), AIMessage("I am done."), HumanMessage("Good.")),
    ]
    end = len(said) - ["human", "ai", "tool"].index(last)
    notes = AIMessage("## Goal\nThe user asks about src/mod3.py and wants a receipt by Friday.")
    model = StrictModel(family=family, script=[AIMessage(" "), *[notes] * 40])
    written = ModelSummarizer(model).summarize(request_of(said[:end], prior="Earlier notes."))
    assert "src/mod3.py" in written.text
    assert len(model.seen) > 3
    for request in model.seen:
        assert [m.type for m in request] == ["system", "human"]


def test_the_gate_waits_for_human_and_ai_words_worth_a_call():
    call = {"name": "read", "args": {"path": "log" * 3_000}, "id": "c"}
    loop = [AIMessage("", tool_calls=[call]), ToolMessage("line " * 2_000, tool_call_id="c")] * 20
    few = [HumanMessage("ok"), AIMessage("yes"), HumanMessage("hm " * 20)]
    writer = ModelSummarizer(Scripted())
    for said in ([*loop, HumanMessage("x" * 4_999)], [*loop, *talk(2)[:3]], few):
        assert not writer.wants(said)
    for said in ([*loop, *talk(2)], talk(2), [HumanMessage("x" * 5_000)]):
        assert writer.wants(said)
    one = [HumanMessage("a sentence of some words")]
    assert ModelSummarizer(Scripted(), min_messages=1).wants(one)


def test_a_log_over_the_summarizers_window_is_cut_to_its_newest_lines_and_never_told_again():
    model = Scripted(profile={"max_input_tokens": 2_000})
    log = "\n".join(f"- order {n} is paid" for n in range(1_000, 1_400))
    summary = ModelSummarizer(model).summarize(request_of(talk(5), prior=log))
    assert summary.model == "scripted"
    (prompt,) = model.requests
    prior, transcript = parts_of(prompt)
    assert prior.endswith("- order 1399 is paid")
    assert "order 1000 " not in str(prompt)
    assert "order" not in transcript
    assert sum(count(str(m.content)) + 4 for m in prompt) + 400 <= 2_000


def test_tracing_and_usage_still_see_the_call():
    usage = UsageMetadataCallbackHandler()
    said = AIMessage("## Goal\nThe user asks about src/mod0.py.", usage_metadata=models.USAGE)
    said.response_metadata = {"model_name": "scripted", "cost": 0.25}
    writer = ModelSummarizer(Scripted(answer=said))
    chain = RunnableLambda(lambda messages: writer.summarize(request_of(messages)))
    summary = chain.invoke(talk(5), {"callbacks": [usage]})
    assert (summary.input_tokens, summary.output_tokens, summary.cost) == (100, 10, 0.25)
    assert usage.usage_metadata["scripted"]["input_tokens"] == 100


async def later(messages, prior):
    await asyncio.sleep(0)
    return f"later {len(messages)} {prior}"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda messages: f"{len(messages)} said", "6 said"),
        (lambda m, p, i, t: f"{t}", "400"),
        (later, "later 6 p"),
        (RunnableLambda(lambda messages: f"notes on {messages[-1].type}"), "notes on human"),
    ],
    ids=["one argument", "four", "async", "chain"],
)
async def test_any_function_or_chain_is_a_summarizer(given, text):
    summarizer, request = as_summarizer(given), request_of(talk(3), prior="p")
    assert (await summarizer.asummarize(request)).text == text
    assert (await asyncio.to_thread(summarizer.summarize, request)).text == text


def test_a_summarizer_that_fails_is_replaced_and_one_that_is_none_refused():
    assert as_summarizer(None).is_quick
    for bad in (lambda _m: "", lambda _m: 1 / 0, lambda _m: "x" * 9_000, lambda _m: 7):
        failed = as_summarizer(bad).summarize(request_of(talk(3)))
        assert (failed.model, len(failed.failures)) == ("extractive", 1)
    for bad, why in (
        (42, "not a summarizer"),
        ("nowhere:m", "summarizer 'nowhere:m' cannot be created"),
        (lambda: "nothing", "takes no messages"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            as_summarizer(bad)


async def test_a_cancelled_summary_calls_the_model_no_more():
    begun, calls = asyncio.Event(), []

    async def hangs(messages):
        calls.append(messages)
        begun.set()
        await asyncio.sleep(3_600)

    writer = ModelSummarizer(RunnableLambda(lambda _: "x", afunc=hangs))
    task = asyncio.create_task(writer.asummarize(request_of(talk(3))))
    async with asyncio.timeout(60):
        await begun.wait()
        workers = [one for one in threading.enumerate() if one.name == "tokenmem"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for worker in workers:
            await asyncio.to_thread(worker.join)
    assert len(calls) == 1
    assert not writer.breaker.is_open


# In a memory


def memory_with(model, window=2_000, **options):
    """Return a memory with a model that also writes entries about tool calls alone."""
    return memory_of(window, summarizer=ModelSummarizer(model, min_messages=0), **options)


@pytest.mark.parametrize("window", [600, 1_000, 4_000])
def test_a_summarizer_is_never_called_without_content(window):
    model, big = Scripted(), HumanMessage("x" * 40_000, id="big")
    memory = memory_with(model, window=window)
    blank = [HumanMessage("", id="a"), AIMessage("", id="b")]
    for messages in ([], [big], [SystemMessage("s"), big], [*blank, big]):
        state = memory.compact(messages, force=True)
        assert memory.view(messages, state).usage.input_tokens <= memory.budget.limit
    assert all(parts_of(request)[1].strip() for request in model.requests)


def test_cache_markers_of_messages_do_not_reach_the_summarizer():
    marker = {"cache_control": {"type": "ephemeral"}}
    block = {"type": "text", "text": "Ship parcel 4711.", **marker}
    model = Scripted()
    memory = memory_with(model, request=RequestRules(pin_first=False))
    system = SystemMessage([{"type": "text", "text": "Rules.", **marker}], id="s")
    messages = [system, HumanMessage([block], id="h", additional_kwargs=marker)]
    for n in range(30):
        messages += tool_round(n, f"file {n} holds value {n * 7}\n" * 8)
    assert memory.compact(messages)["summary"]
    sent = [message.model_dump_json() for request in model.requests for message in request]
    assert "Ship parcel 4711." in "".join(sent)
    assert [one for one in sent if "cache_control" in one] == []
