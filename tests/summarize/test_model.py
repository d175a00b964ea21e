"""Summaries by a model, with scripted models that fail in many ways."""

import asyncio
import threading

import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.coerce import as_summarizer
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.summarize.prompts import render_message
from langchain_tokenmem.types import RequestRules
from tests.fakes import CharCounter, memory_of, tool_round
from tests.providers import CHECKS, StrictModel
from tests.summarize import models
from tests.summarize.models import Scripted, parts_of

HOSTILE = [
    models.raising,
    models.blank,
    models.endless,
    models.first_person,
    models.tool_calling,
    models.length_stopped,
    models.too_short,
]


def count(text: str) -> int:
    return CharCounter().text(text)


def talk(turns: int, words: int = 30) -> list:
    return [
        message
        for n in range(turns)
        for message in (
            HumanMessage(f"question {n} about file src/mod{n}.py " * (words // 6), id=f"h{n}"),
            AIMessage(f"answer {n}: it is fixed in v1.{n}.0 " * (words // 6), id=f"a{n}"),
        )
    ]


def request_of(messages, max_tokens=400, **more) -> SummaryRequest:
    return SummaryRequest(messages, max_tokens, count, **more)


@pytest.mark.slow
@pytest.mark.parametrize("answer", HOSTILE, ids=lambda f: f.__name__)
def test_failed_blank_cut_off_and_off_topic_summaries_are_refused_and_history_kept(answer):
    model = Scripted(answer=answer)
    memory = memory_of(summarizer=model)
    messages = [*talk(20), HumanMessage("and now?", id="now")]
    state = memory.compact(messages)
    assert len(model.requests) == 3
    summary = state["summary"]["entries"][-1]
    assert summary["model"] == "extractive"
    assert len(summary["failures"]) == 3
    assert "src/mod14.py" in summary["text"]
    view = memory.view(messages, state)
    assert view.usage.input_tokens <= memory.budget.limit
    assert any("scripted" in warning for warning in view.warnings)
    for bad in ("provider down", "Shall I go on", "long thoughts", "and so on and so on"):
        assert bad not in str(view.messages)
    assert messages == [*talk(20), HumanMessage("and now?", id="now")]


@pytest.mark.slow
def test_three_failed_attempts_bring_a_cool_down_before_the_model_is_tried_again():
    clock = [0.0]
    model = Scripted(answer=models.raising)
    writer = ModelSummarizer(model, cool_down_s=60, clock=lambda: clock[0])
    for _ in range(5):
        assert writer.summarize(request_of(talk(10))).model == "extractive"
    assert len(model.requests) == 3
    assert writer.breaker.is_open
    clock[0] = 61.0
    model.answer = models.faithful
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
    messages = [
        HumanMessage([{"type": "text", "text": "look at this"}, picture], id="secret-id-1"),
        AIMessage(
            [
                {"type": "thinking", "thinking": thought, "signature": thought},
                {"type": "redacted_thinking", "data": thought},
                "I see a cat.",
            ],
            id="x",
            usage_metadata=models.USAGE,
            response_metadata={"model_name": "m", "system_fingerprint": "f"},
            tool_calls=[{"name": "zoom", "args": {"level": 3}, "id": "call-77"}],
        ),
        ToolMessage("zoomed", tool_call_id="call-77", name="zoom", artifact={"raw": "BYTES"}),
        AIMessage(
            [
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": thought},
                {"type": "reasoning", "reasoning": thought, "extras": {"signature": thought}},
            ],
            additional_kwargs={"reasoning_content": thought, "reasoning": {"text": thought}},
            invalid_tool_calls=[{**broken, "type": "invalid_tool_call"}],
        ),
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
    writer = ModelSummarizer(Scripted())
    call = {"name": "read", "args": {"path": "log" * 3_000}, "id": "c"}
    loop = [AIMessage("", tool_calls=[call]), ToolMessage("line " * 2_000, tool_call_id="c")]
    assert not writer.wants(loop * 20)
    assert not writer.wants([*loop * 20, HumanMessage("x" * 4_999)])
    assert not writer.wants([*loop, *talk(2)[:3]])
    assert writer.wants([*loop, *talk(2)])
    assert not writer.wants([HumanMessage("ok"), AIMessage("yes"), HumanMessage("hm " * 20)])
    assert writer.wants(talk(2))
    assert writer.wants([HumanMessage("x" * 5_000)])
    assert ModelSummarizer(Scripted(), min_messages=1).wants(
        [HumanMessage("a sentence of some words")]
    )


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
    said = AIMessage(
        "## Goal\nThe user asks about src/mod0.py.",
        usage_metadata=models.USAGE,
        response_metadata={"model_name": "scripted", "cost": 0.25},
    )
    model = Scripted(answer=lambda _m: said)
    writer = ModelSummarizer(model)
    chain = RunnableLambda(lambda messages: writer.summarize(request_of(messages)))
    summary = chain.invoke(talk(5), {"callbacks": [usage]})
    assert (summary.input_tokens, summary.output_tokens, summary.cost) == (100, 10, 0.25)
    assert usage.usage_metadata["scripted"]["input_tokens"] == 100


async def test_any_summarizer_is_accepted():
    async def later(messages, prior):
        await asyncio.sleep(0)
        return f"later {len(messages)} {prior}"

    request = request_of(talk(3), prior="p")
    assert (
        as_summarizer(lambda messages: f"{len(messages)} said").summarize(request).text == "6 said"
    )
    assert (await as_summarizer(later).asummarize(request)).text == "later 6 p"
    assert (await as_summarizer(lambda m, p, i, t: f"{t}").asummarize(request)).text == "400"
    assert (
        await asyncio.to_thread(lambda: as_summarizer(later).summarize(request).text) == "later 6 p"
    )
    chain = RunnableLambda(lambda messages: f"notes on {messages[-1].type}")
    assert as_summarizer(chain).summarize(request).text == "notes on human"
    assert as_summarizer(None).is_quick
    for bad in (lambda _m: "", lambda _m: 1 / 0, lambda _m: "x" * 9_000, lambda _m: 7):
        failed = as_summarizer(bad).summarize(request)
        assert failed.model == "extractive"
        assert len(failed.failures) == 1
    with pytest.raises(ConfigurationError, match="not a summarizer"):
        as_summarizer(42)
    with pytest.raises(ConfigurationError, match="summarizer 'nowhere:m' cannot be created"):
        as_summarizer("nowhere:m")
    with pytest.raises(ConfigurationError, match="takes no messages"):
        as_summarizer(lambda: "nothing")


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


def memory_with(model, window=2_000, **options) -> TokenMemory:
    """Return a memory with a model that also writes entries about tool calls alone."""
    return memory_of(window, summarizer=ModelSummarizer(model, min_messages=0), **options)


@pytest.mark.parametrize("window", [600, 1_000, 4_000])
def test_a_summarizer_is_never_called_without_content(window):
    model = Scripted()
    memory = memory_with(model, window=window)
    for messages in (
        [],
        [HumanMessage("x" * 40_000, id="big")],
        [SystemMessage("s"), HumanMessage("x" * 40_000, id="big")],
        [HumanMessage("", id="a"), AIMessage("", id="b"), HumanMessage("x" * 40_000, id="big")],
    ):
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
