"""LangChain's integrations, as installed, count at local servers that speak their endpoints.

No test here asks a paid API: that the real endpoints take these requests, and count as they bill,
is what their documentation says and not what is shown here.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from count_models import ASKED, NOT_ASKED, anthropic, google
from count_servers import CountServer, count_server
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem.counting import ProviderCounter, counter_for
from langchain_tokenmem.tokens.provider_counter import FAILURES, MOST_REQUESTS, TIMEOUT_S

for module in ("anthropic", "aws", "google_genai", "google_vertexai", "mistralai"):
    pytest.importorskip(f"langchain_{module}", reason="pip install 'langchain-tokenmem[peers]'")

# of the integrations themselves
pytestmark = pytest.mark.filterwarnings("ignore")

TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    },
}
CALL = {"name": "read_file", "args": {"path": "a.txt"}, "id": "toolu_01"}
REQUEST = [
    SystemMessage("Be brief."),
    HumanMessage("What is in a.txt?"),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("hello", tool_call_id="toolu_01"),
    HumanMessage("And now?"),
]
MACHINE_S = 8.0
"""Seconds beyond its own 2 that a call may take on a busy machine; the endpoint hangs for 30."""


def readable(body: Any) -> str:
    """Return a request as text; Bedrock's `invokeModel` carries it in base64."""
    invoked = body.get("input", {}).get("invokeModel")
    return base64.b64decode(invoked["body"]).decode() if invoked else json.dumps(body)


@pytest.fixture
def server() -> Iterator[CountServer]:
    with count_server() as running:
        yield running


@pytest.mark.parametrize("name", ASKED)
def test_one_request_counts_the_whole_list_with_system_and_tools(name, server):
    counter = ProviderCounter(ASKED[name](server.url))
    count = counter.count(REQUEST, tools=[TOOL])
    assert (count.method, count.is_estimate, len(server.requests)) == ("provider", False, 1)
    body = readable(server.requests[0][1])
    for text in ("Be brief.", "What is in a.txt?", "a.txt", "hello", "And now?"):
        assert text in body
    has_tools = "Read a file." in body
    assert count.tokens == server.tokens + (0 if has_tools else counter.tools([TOOL]))
    assert has_tools == (name.startswith(("ChatAnthropic", "ChatGoogle")))


@pytest.mark.parametrize("name", ASKED)
def test_the_same_request_is_sent_once_and_an_edited_one_again(name, server):
    counter = ProviderCounter(ASKED[name](server.url))
    counter.count(REQUEST)
    assert counter.count(REQUEST).method == "provider"
    assert len(server.requests) == 1
    counter.count([*REQUEST[:-1], HumanMessage("And then?")])
    assert len(server.requests) == 2


def test_google_fetches_no_picture_to_count_it(server):
    picture = {"type": "image_url", "image_url": {"url": f"{server.url}/picture.png"}}
    message = HumanMessage([{"type": "text", "text": "What is it?"}, picture])
    assert ProviderCounter(google(server.url)).count([message]).is_estimate
    assert server.requests == []


@pytest.mark.parametrize("name", NOT_ASKED)
def test_integrations_without_an_endpoint_send_nothing_and_load_no_gpt2(name, server):
    model = NOT_ASKED[name](server.url)
    before = "transformers" in sys.modules
    count = ProviderCounter(model).count(REQUEST, tools=[TOOL])
    assert count.tokens == counter_for(model).count(REQUEST, tools=[TOOL]).tokens
    assert count.method == ("exact" if name == "ChatOpenAI" else "estimate")
    assert server.requests == []
    assert ("transformers" in sys.modules) == before


@pytest.mark.parametrize("name", ASKED)
def test_a_failing_endpoint_gives_the_estimate_and_is_left_alone(name, server):
    server.status = 429
    model = ASKED[name](server.url)
    counter = ProviderCounter(model)
    for number in range(FAILURES + 5):
        request = [*REQUEST[:-1], HumanMessage(f"Number {number}?")]
        count = counter.count(request, tools=[TOOL])
        assert count.tokens == counter_for(model).count(request, tools=[TOOL]).tokens
        assert count.is_estimate
    # the client of Vertex AI repeats a request that was refused
    assert FAILURES <= len(server.requests) <= 4 * FAILURES


def test_an_endpoint_that_hangs_holds_a_call_up_for_two_seconds(server):
    server.seconds = 30.0
    counter = ProviderCounter(anthropic(server.url))
    began = time.perf_counter()
    count = counter.count(REQUEST)
    assert TIMEOUT_S * 0.9 < time.perf_counter() - began < TIMEOUT_S + MACHINE_S
    assert count.is_estimate


async def test_of_200_calls_at_once_three_ask_and_the_others_are_estimated(server):
    server.seconds = 0.05
    counter = ProviderCounter(anthropic(server.url))
    await counter.acount([HumanMessage("the client is made")])
    requests = [[HumanMessage(f"{number} " + "The parcel. " * 200)] for number in range(200)]
    with blockbuster_ctx():  # finds what waits in the event loop
        counts = await asyncio.gather(*map(counter.acount, requests))
    methods = [count.method for count in counts]
    assert server.most_at_once == MOST_REQUESTS
    assert methods.count("provider") >= 10
    assert {*methods} == {"provider", "estimate"}
