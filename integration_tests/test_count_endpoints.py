"""LangChain's integrations, as installed, count and embed against local servers.

No test here asks a paid API: that the real endpoints take these requests, and count as they bill,
is what their documentation says and not what is shown here.
"""

import base64
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.counting import ProviderCounter, counter_for
from langchain_tokenmem.recall import HashingEmbeddings


def library(name: str) -> Any:
    return pytest.importorskip(
        f"langchain_{name}", reason="pip install 'langchain-tokenmem[peers]'"
    )


anthropic, aws, google, vertex, mistral, openai = map(
    library, ("anthropic", "aws", "google_genai", "google_vertexai", "mistralai", "openai")
)

# of the integrations themselves
pytestmark = pytest.mark.filterwarnings("ignore")

CLAUDE_ON_AWS = "anthropic.claude-sonnet-4-20250514-v1:0"
IN_GOOGLE_CLOUD = {"project": "p", "location": "us-central1"}


def gemini(url: str, **mode: Any) -> Any:
    mode = mode or {"api_key": "none"}
    return google.ChatGoogleGenerativeAI(model="gemini-2.5-flash", base_url=url, **mode)


def no_one() -> Any:
    """Return anonymous credentials for Google Cloud."""
    from google.auth.credentials import AnonymousCredentials

    credentials: Any = AnonymousCredentials()
    credentials.token = "none"  # noqa: S105
    return credentials


def on_vertex(url: str) -> Any:
    where = {"api_transport": "rest", "api_endpoint": url, **IN_GOOGLE_CLOUD}
    return vertex.ChatVertexAI(
        model="gemini-2.5-flash", credentials=no_one(), max_retries=1, **where
    )


def aws_access(url: str) -> dict[str, Any]:
    from botocore.config import Config

    return {
        "endpoint_url": url,
        "region_name": "us-east-1",
        "aws_access_key_id": "none",
        "aws_secret_access_key": "none",
        "config": Config(retries={"total_max_attempts": 1}),
    }


Make = Callable[[str], Any]

ASKED: dict[str, Make] = {
    "ChatAnthropic": lambda url: anthropic.ChatAnthropic(
        model="claude-sonnet-4-5", base_url=url, api_key="none", max_retries=0
    ),
    "ChatGoogleGenerativeAI": gemini,
    "ChatGoogleGenerativeAI, Vertex mode": lambda url: gemini(
        url, vertexai=True, credentials=no_one(), **IN_GOOGLE_CLOUD
    ),
    "ChatVertexAI": on_vertex,
    "ChatBedrockConverse": lambda url: aws.ChatBedrockConverse(
        model=CLAUDE_ON_AWS, **aws_access(url)
    ),
    "ChatBedrock": lambda url: aws.ChatBedrock(model=f"us.{CLAUDE_ON_AWS}", **aws_access(url)),
}
"""Integrations with an endpoint that counts."""

NOT_ASKED: dict[str, Make] = {
    "ChatMistralAI": lambda url: mistral.ChatMistralAI(
        model="mistral-large-latest", endpoint=url, api_key="none"
    ),
    "ChatOpenAI": lambda url: openai.ChatOpenAI(model="gpt-4o", base_url=url, api_key="none"),
    "ChatOpenAI, another server": lambda url: openai.ChatOpenAI(
        model="my-llama-deployment", base_url=url, api_key="none"
    ),
}
"""Integrations without one."""


@contextmanager
def json_server(answer: Callable[[str, Any], tuple[int, Any]]) -> Iterator[str]:
    """Run a server as long as the block does; give its URL.

    Args:
        answer: Returns status and body for the path and the body of a request.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            status, body = answer(self.path, json.loads(self.rfile.read(size)))
            written = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False  # clients keep their connections
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return path


TOOL = convert_to_openai_tool(read_file)
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
    model = ASKED[name](server.url)
    refused = ProviderCounter(model).count(REQUEST, tools=[TOOL])
    assert refused.tokens == counter_for(model).count(REQUEST, tools=[TOOL]).tokens
    assert refused.is_estimate


def test_google_fetches_no_picture_to_count_it(server):
    picture = {"type": "image_url", "image_url": {"url": f"{server.url}/picture.png"}}
    message = HumanMessage([{"type": "text", "text": "What is it?"}, picture])
    assert ProviderCounter(gemini(server.url)).count([message]).is_estimate
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


def test_an_embedding_model_by_name_is_asked_without_the_download_of_a_vocabulary(monkeypatch):
    name, model = "text-embedding-3-large", HashingEmbeddings(64)
    bodies: list[Any] = []

    def answer(_path: str, body: Any) -> tuple[int, Any]:
        """Answer as OpenAI does (`/v1/embeddings`)."""
        bodies.append(body)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = enumerate(model.embed_documents(texts))
        data = [{"object": "embedding", "index": at, "embedding": one} for at, one in vectors]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return 200, {"object": "list", "data": data, "model": body["model"], "usage": usage}

    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with json_server(answer) as url, TranscriptStore("sqlite://", shared=True) as store:
        monkeypatch.setenv("OPENAI_API_BASE", f"{url}/v1")
        store.add("s", [HumanMessage("What does it cost?"), AIMessage("42 euros a month.")])
        with Recall(store, embeddings=f"openai:{name}") as recall:
            recall.index()
            (hit,) = recall.search("costs in euros a month", session_id="s", k=1)
    assert (hit.text, hit.cosine is None) == ("42 euros a month.", False)
    assert {body["model"] for body in bodies} == {name}
    given = [text for body in bodies for text in body["input"]]
    assert "42 euros a month." in given, "words, no token numbers"
