"""LangChain's integrations, as installed, count at local servers that speak their endpoints.

No test here asks a paid API: that the real endpoints take these requests, and count as they bill,
is what their documentation says and not what is shown here.
"""

import base64
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from json_server import json_server
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem.counting import ProviderCounter, counter_for

for module in ("anthropic", "aws", "google_genai", "google_vertexai", "mistralai"):
    pytest.importorskip(f"langchain_{module}", reason="pip install 'langchain-tokenmem[peers]'")

# of the integrations themselves
pytestmark = pytest.mark.filterwarnings("ignore")


def anthropic(url: str) -> Any:
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model="claude-sonnet-4-5", base_url=url, api_key="none", max_retries=0)


def google(url: str, **mode: Any) -> Any:
    from langchain_google_genai import ChatGoogleGenerativeAI

    given = {"model": "gemini-2.5-flash", "base_url": url, "api_key": "none", **mode}
    return ChatGoogleGenerativeAI(**{key: one for key, one in given.items() if one is not None})


def google_vertex_mode(url: str) -> Any:
    from google.auth.credentials import AnonymousCredentials

    credentials: Any = AnonymousCredentials()
    credentials.token = "none"  # noqa: S105  no one's
    place = {"vertexai": True, "project": "p", "location": "us-central1"}
    return google(url, api_key=None, credentials=credentials, **place)


def vertex(url: str) -> Any:
    from google.auth.credentials import AnonymousCredentials

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_google_vertexai import ChatVertexAI

        return ChatVertexAI(
            model="gemini-2.5-flash",
            project="p",
            location="us-central1",
            credentials=AnonymousCredentials(),
            api_transport="rest",
            api_endpoint=url,
            max_retries=1,
        )


def bedrock_converse(url: str) -> Any:
    from langchain_aws import ChatBedrockConverse

    return ChatBedrockConverse(model="anthropic.claude-sonnet-4-20250514-v1:0", **_aws(url))


def bedrock(url: str) -> Any:
    from langchain_aws import ChatBedrock

    return ChatBedrock(model="us.anthropic.claude-sonnet-4-20250514-v1:0", **_aws(url))


def _aws(url: str) -> dict[str, Any]:
    from botocore.config import Config

    return {
        "endpoint_url": url,
        "region_name": "us-east-1",
        "aws_access_key_id": "none",
        "aws_secret_access_key": "none",
        "config": Config(retries={"total_max_attempts": 1}),
    }


def mistral(url: str) -> Any:
    from langchain_mistralai import ChatMistralAI

    return ChatMistralAI(model="mistral-large-latest", endpoint=url, api_key="none")


def openai(url: str, model: str = "gpt-4o") -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=model, base_url=url, api_key="none")


Make = Callable[[str], Any]

ASKED: dict[str, Make] = {
    "ChatAnthropic": anthropic,
    "ChatGoogleGenerativeAI": google,
    "ChatGoogleGenerativeAI, Vertex mode": google_vertex_mode,
    "ChatVertexAI": vertex,
    "ChatBedrockConverse": bedrock_converse,
    "ChatBedrock": bedrock,
}
"""Integrations with an endpoint that counts."""

NOT_ASKED: dict[str, Make] = {
    "ChatMistralAI": mistral,
    "ChatOpenAI": openai,
    "ChatOpenAI, another server": lambda url: openai(url, "my-llama-deployment"),
}
"""Integrations without one."""

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
ANSWERS = {
    "/count_tokens": "input_tokens",
    ":countTokens": "totalTokens",
    "/count-tokens": "inputTokens",
}
"""Where Anthropic, Google and AWS are asked for a count, and what they call it."""


class CountServer:
    """Counts 321 tokens, or refuses; keeps path and body of each request."""

    url = ""
    tokens = 321
    status = 200

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []

    def answer(self, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        self.requests.append((path, body))
        if self.status != 200:
            return self.status, {"error": {"type": "rate_limit_error", "message": "slow down"}}
        place = path.split("?", maxsplit=1)[0]
        (key,) = (key for end, key in ANSWERS.items() if place.endswith(end))
        return 200, {key: self.tokens}


def readable(body: Any) -> str:
    """Return a request as text; Bedrock's `invokeModel` carries it in base64."""
    invoked = body.get("input", {}).get("invokeModel")
    return base64.b64decode(invoked["body"]).decode() if invoked else json.dumps(body)


@pytest.fixture
def server() -> Iterator[CountServer]:
    made = CountServer()
    with json_server(made.answer) as made.url:
        yield made


@pytest.mark.parametrize("name", ASKED)
def test_one_request_counts_the_whole_list_and_a_refused_one_gives_the_estimate(name, server):
    counter = ProviderCounter(ASKED[name](server.url))
    count = counter.count(REQUEST, tools=[TOOL])
    assert (count.method, count.is_estimate, len(server.requests)) == ("provider", False, 1)
    body = readable(server.requests[0][1])
    for text in ("Be brief.", "What is in a.txt?", "a.txt", "hello", "And now?"):
        assert text in body
    has_tools = "Read a file." in body
    assert count.tokens == server.tokens + (0 if has_tools else counter.tools([TOOL]))
    assert has_tools == (name.startswith(("ChatAnthropic", "ChatGoogle")))
    server.status = 429
    refused = ProviderCounter(ASKED[name](server.url)).count(REQUEST, tools=[TOOL])
    assert (
        refused.tokens == counter_for(ASKED[name](server.url)).count(REQUEST, tools=[TOOL]).tokens
    )
    assert refused.is_estimate


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
