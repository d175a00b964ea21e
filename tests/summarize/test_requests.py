"""The main request sent again for a summary: what a provider's cache shares, and when it pays."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.summarize.requests import complete_groups, tokens_of
from tests.contract.chats import Talker
from tests.fakes import tool_round
from tests.providers import CHECKS, StrictModel
from tests.strategies import conversations
from tests.summarize.models import tool_calling

NOTES = "## State\n- The assistant has read the log."
GO_ON = HumanMessage("Go on.")
TOOL = {"name": "read", "description": "Read a file.", "parameters": {"type": "object"}}


def count(text):
    return len(text) // 4


class CachingModel(Talker):
    """Hashes what comes before each message of a request, tools first, as a provider does.

    `shared`: messages of each request with the same messages and tools before them as last time.
    """

    name_: str = "caching"
    provider: str = "openai"
    answer: Any = NOTES
    prefixes: set[str] = Field(default_factory=set)
    shared: list[int] = Field(default_factory=list)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": self.provider, "ls_model_type": "chat"}

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _answer(self, messages: list[BaseMessage], keywords: dict[str, Any]) -> AIMessage:
        digest = hashlib.blake2b(json.dumps(keywords.get("tools")).encode())
        hit = 0
        for place, message in enumerate(messages, 1):
            digest.update(f"{message.type} {message.content}".encode())
            if digest.hexdigest() in self.prefixes:
                hit = place
            self.prefixes.add(digest.hexdigest())
        self.shared.append(hit)
        return super()._answer(messages, keywords)


def agent_run(rounds, words=60):
    """Return an agent's request: a system text, a first request, complete groups."""
    said = [SystemMessage("Work."), HumanMessage("Read the log.", id="h")]
    for n in range(rounds):
        said += tool_round(n, f"part {n} of the log " * words)
    return said


def request_of(sent, batch=slice(2, 12), **more):
    of_main = {"sent": sent, "sent_tokens": tokens_of(sent, count), "tools": [TOOL]}
    return SummaryRequest(sent[batch], 300, count, **of_main, **more)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("wanted", [True, None])
async def test_a_reused_request_hits_the_providers_cache_with_all_but_its_instruction(
    later, wanted
):
    model, sent = CachingModel(), agent_run(10)
    model.bind_tools([TOOL], temperature=0).invoke(sent)
    request = request_of(sent, called=model, settings={"temperature": 0})
    writer = ModelSummarizer(model, reuse_prefix=wanted, tool_share=0.0)
    summary = await writer.asummarize(request) if later else writer.summarize(request)
    assert summary.text == NOTES
    assert model.shared == [0, len(sent)]
    assert model.requests[1][:-1] == sent
    assert model.keywords[0] == model.keywords[1]


WANTED = {"reuse_prefix": True}


@pytest.mark.parametrize(
    ("called", "options", "more", "reused"),
    [
        (CachingModel().bind(stop=["x"]), {}, {}, True),
        (None, {}, {}, False),
        (None, WANTED, {}, True),
        (CachingModel(name_="small"), WANTED, {}, False),
        (CachingModel(provider="anthropic"), WANTED, {}, False),
        ("openai:gpt-4o", WANTED, {}, False),
        (CachingModel(), WANTED, {"settings": {"tool_choice": "any"}}, False),
        (CachingModel(), WANTED, {"settings": {"response_format": {"type": "x"}}}, False),
        (CachingModel(), {**WANTED, "window": 2_000}, {}, False),
        (CachingModel(), WANTED, {"condenses": True}, False),
    ],
    ids=[
        *("called model", "unknown model", "unknown and wanted", "another name"),
        *("another provider", "a name alone", "has to call", "has to answer in JSON"),
        *("too small a window", "condensing"),
    ],
)
def test_a_request_is_reused_for_the_called_model_only_and_where_notes_can_be_the_answer(
    called, options, more, reused
):
    model, sent = CachingModel(), agent_run(10, words=30)
    ModelSummarizer(model, **options).summarize(request_of(sent, called=called, **more))
    assert (model.requests[0][:-1] == sent) is reused
    assert reused or not any(model.keywords), "a separate request has no tools"


def test_a_request_is_sent_again_up_to_its_last_complete_group():
    model, sent = CachingModel(), agent_run(10)
    model.bind_tools([TOOL]).invoke(sent)
    calls = [{"name": "read", "args": {}, "id": key} for key in ("x", "y")]
    running = [*sent, AIMessage("", tool_calls=calls), ToolMessage("one", tool_call_id="x")]
    writer = ModelSummarizer(model)
    writer.summarize(request_of(running, called=model))
    assert model.requests[1][:-1] == sent
    assert model.shared == [0, len(sent)]


@given(conversations(10), st.integers(0, 12))
def test_a_request_that_is_sent_again_never_has_a_call_without_its_result(messages, end):
    kept = complete_groups(messages[:end])
    assert kept == messages[: len(kept)]
    answered = {one.tool_call_id for one in messages[:end] if isinstance(one, ToolMessage)}
    asked = {call["id"] for one in kept for call in getattr(one, "tool_calls", ())}
    assert asked <= answered


def test_a_tool_call_in_answer_to_a_reused_request_is_refused_and_the_batch_read_alone():
    model, sent = CachingModel(answer=[tool_calling, NOTES]), agent_run(10)
    summary = ModelSummarizer(model, tool_share=0.0).summarize(request_of(sent, called=model))
    assert (summary.text, summary.calls) == (NOTES, 2)
    assert "tool call" in summary.failures[0]
    assert [message.type for message in model.requests[1]] == ["system", "human"]


USAGE = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "details", "reused"),
    [
        (slice(2, 40), None, True),  # replies without usage
        (slice(2, 40), {}, True),
        (slice(2, 4), {}, False),
        (slice(2, 40), {"cache_read": 900}, True),
        (slice(2, 40), {"cache_read": 0}, False),  # a provider that reports no cache
    ],
)
def test_a_request_is_reused_by_default_only_where_that_is_cheaper(batch, details, reused):
    model, sent = CachingModel(), agent_run(40)
    for one in sent[2::2]:
        usage = {**USAGE, "input_token_details": details}
        one.usage_metadata = None if details is None else usage
    ModelSummarizer(model, window=100_000).summarize(request_of(sent, batch, called=model))
    assert (model.requests[0][:-1] == sent) is reused


@pytest.mark.parametrize("family", sorted(CHECKS))
@pytest.mark.parametrize("behind", [[], [AIMessage("Read.")], [AIMessage("Read."), GO_ON]])
def test_strict_providers_accept_a_reused_request(family, behind):
    model = StrictModel(family=family, script=[AIMessage(NOTES)])
    writer = ModelSummarizer(model, reuse_prefix=True, tool_share=0.0)
    summary = writer.summarize(request_of([*agent_run(6), *behind], slice(2, 6)))
    assert (summary.text, summary.failures) == (NOTES, ())
    assert len(model.seen[0]) > 10
