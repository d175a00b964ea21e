"""Names of embedding models, against a local server of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.recall import HashingEmbeddings

MODEL = HashingEmbeddings(64)


class Service(ThreadingHTTPServer):
    """Answers as OpenAI does (`/v1/embeddings`), and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[dict] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        found = MODEL.embed_documents(texts)
        data = [
            {"object": "embedding", "index": at, "embedding": vector}
            for at, vector in enumerate(found)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        reply = {"object": "list", "data": data, "model": body["model"], "usage": usage}
        content = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_args: object) -> None:
        pass


@contextmanager
def service() -> Iterator[Service]:
    with Service() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    with service() as made:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        monkeypatch.setenv("OPENAI_API_BASE", f"{made.url}/v1")
        yield made


def talk_is_found(embeddings: str) -> None:
    with TranscriptStore("sqlite://") as store, Recall(store, embeddings=embeddings) as recall:
        store.add("s", [HumanMessage("What does it cost?"), AIMessage("42 euros a month.")])
        recall.index()
        (hit,) = recall.search("costs in euros a month", session_id="s", k=1)
        assert hit.text == "42 euros a month."
        assert hit.cosine is not None
        assert recall.backlog() == {"lexical": 0, "vectors": 0}


def test_a_model_by_name_is_asked_without_the_download_of_a_vocabulary(openai):
    talk_is_found("openai:text-embedding-3-large")
    assert {body["model"] for body in openai.bodies} == {"text-embedding-3-large"}
    given = [text for body in openai.bodies for text in body["input"]]
    assert "42 euros a month." in given  # words, no token numbers
