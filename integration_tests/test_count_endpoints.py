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
from count_models import ASKED, NOT_ASKED, anthropic, anthropic_with_retries, google
from count_servers import CountServer, count_server
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.counting import ProviderCounter, counter_for
from langchain_tokenmem.tokens.provider_counter import FAILURES, MOST_REQUESTS, TIMEOUT_S

for module in ("anthropic", "aws", "google_genai", "google_vertexai", "litellm", "mistralai"):
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


PATHS = {
    "ChatAnthropic": "/v1/messages/count_tokens",
    "ChatGoogleGenerativeAI": "/v1beta/models/gemini-2.5-flash:countTokens",
    "ChatGoogleGenerativeAI, Vertex mode": "/v1beta1/projects/p/locations/us-central1/publishers/"
    "google/models/gemini-2.5-flash:countTokens",
    "ChatVertexAI": "/v1beta1/projects/p/locations/us-central1/publishers/google/models/"
    "gemini-2.5-flash:countTokens",
    "ChatBedrockConverse": "/model/anthropic.claude-sonnet-4-20250514-v1%3A0/count-tokens",
    "ChatBedrock": "/model/anthropic.claude-sonnet-4-20250514-v1%3A0/count-tokens",
}


@pytest.mark.parametrize("name", PATHS)
def test_the_endpoint_is_the_documented_one(name, server):
    ProviderCounter(ASKED[name](server.url)).count(REQUEST)
    assert server.requests[0][0].split("?")[0] == PATHS[name]


def test_anthropic_is_sent_system_messages_and_tools_in_its_own_form(server):
    ProviderCounter(anthropic(server.url)).count(REQUEST, tools=[TOOL])
    body = server.requests[0][1]
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["tools"][0]["input_schema"]["required"] == ["path"]


@pytest.mark.parametrize("name", [name for name in ASKED if name.startswith("ChatGoogle")])
def test_google_is_asked_once_over_all_contents_and_not_once_a_message(name, server):
    ProviderCounter(ASKED[name](server.url)).count(REQUEST, tools=[TOOL])
    body = server.requests[0][1]
    own = [content for content in body["contents"] if "Be brief." not in json.dumps(content)]
    in_vertex_mode = "systemInstruction" in body
    assert in_vertex_mode == ("Vertex" in name)
    assert ("tools" in body) == in_vertex_mode
    assert len(own) == 4 + (not in_vertex_mode)  # the tools as a text in front


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


@pytest.mark.parametrize("status", [400, 429, 500, 529])
@pytest.mark.parametrize("name", ASKED)
def test_a_failing_endpoint_gives_the_estimate_and_is_left_alone(name, status, server):
    server.status = status
    model = ASKED[name](server.url)
    counter = ProviderCounter(model)
    for number in range(FAILURES + 5):
        request = [*REQUEST[:-1], HumanMessage(f"Number {number}?")]
        began = time.perf_counter()
        count = counter.count(request, tools=[TOOL])
        assert time.perf_counter() - began < TIMEOUT_S + MACHINE_S
        assert count.tokens == counter_for(model).count(request, tools=[TOOL]).tokens
        assert count.is_estimate
    # the client of Vertex AI repeats a request that was refused
    assert FAILURES <= len(server.requests) <= 4 * FAILURES


def test_rate_limits_that_the_client_waits_out_hold_nobody_up(server):
    server.status = 429
    counter = ProviderCounter(anthropic_with_retries(server.url))
    for number in range(8):
        began = time.perf_counter()
        assert counter.count([HumanMessage(f"{number}")]).is_estimate
        assert time.perf_counter() - began < TIMEOUT_S + MACHINE_S
    assert len(server.requests) <= 3 * FAILURES


@pytest.mark.parametrize("name", ["ChatAnthropic", "ChatGoogleGenerativeAI", "ChatBedrockConverse"])
def test_a_slow_endpoint_holds_a_call_up_for_two_seconds_at_most(name, server):
    server.seconds = 4.0
    counter = ProviderCounter(ASKED[name](server.url))
    began = time.perf_counter()
    count = counter.count(REQUEST)
    assert TIMEOUT_S * 0.9 < time.perf_counter() - began < TIMEOUT_S + MACHINE_S
    assert count.is_estimate


def test_a_server_that_is_not_there_gives_the_estimate():
    counter = ProviderCounter(anthropic("http://127.0.0.1:9"))
    assert counter.count(REQUEST).is_estimate


async def test_of_200_calls_at_once_three_ask_and_none_waits_for_more_than_two_seconds(server):
    server.seconds = 0.05
    counter = ProviderCounter(anthropic(server.url))
    await counter.acount([HumanMessage("the client is made")])
    requests = [[HumanMessage(f"{number} " + "The parcel. " * 200)] for number in range(200)]
    took: list[float] = []
    busy: list[float] = []

    async def timed(request: list[HumanMessage]) -> str:
        began = time.perf_counter()
        count = await counter.acount(request)
        took.append(time.perf_counter() - began)
        return count.method

    async def probe() -> None:
        while True:
            began = time.thread_time()  # CPU of the loop's thread: other tests are not in it
            await asyncio.sleep(0.005)
            busy.append(time.thread_time() - began)

    with blockbuster_ctx():
        probing = asyncio.create_task(probe())
        methods = await asyncio.gather(*map(timed, requests))
        probing.cancel()
    print(
        f"{methods.count('provider')} counted, {methods.count('estimate')} estimated; longest call "
        f"{max(took):.2f} s, the loop at one thing for {1_000 * max(busy):.0f} ms, at once "
        f"{server.most_at_once}"
    )
    assert server.most_at_once == MOST_REQUESTS
    assert max(took) < TIMEOUT_S + MACHINE_S
    assert max(busy) < 0.5  # what waits instead of computing is found by blockbuster
    assert methods.count("provider") >= 10
    assert {*methods} == {"provider", "estimate"}


async def test_200_calls_do_not_wait_for_an_endpoint_that_hangs(server):
    counter = ProviderCounter(anthropic(server.url))
    await counter.acount([HumanMessage("the client is made")])
    server.seconds = 30.0
    began = time.perf_counter()
    counts = await asyncio.gather(
        *(counter.acount([HumanMessage(f"{number}")]) for number in range(200))
    )
    assert time.perf_counter() - began < TIMEOUT_S + MACHINE_S
    assert all(count.is_estimate for count in counts)
    # The server learns late of a request that was given up, so requests are counted, not places.
    asked = len(server.requests)
    assert asked <= 1 + MOST_REQUESTS + FAILURES
    assert (await counter.acount([HumanMessage("next")])).is_estimate
    assert len(server.requests) == asked


@pytest.mark.parametrize("name", ASKED)
async def test_a_turn_near_a_threshold_asks_once_and_shows_what_was_counted(name, server):
    model = ASKED[name](server.url)
    memory = TokenMemory(TokenBudget(4_000, reserve_output=200), counter=ProviderCounter(model))
    said = [
        (AIMessage if number % 2 else HumanMessage)(
            "The parcel goes to Bonn. " * 12, id=f"{number}"
        )
        for number in range(41)
    ]
    while counter_for(model).count(said).tokens > 2_900:
        said = said[2:]
    server.tokens = 2_750
    _, view = await memory.acompact_and_view(said)
    assert len(server.requests) == 1
    assert (view.usage.input_tokens, view.usage.is_estimate) == (2_750, False)
