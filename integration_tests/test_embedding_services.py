"""`embeddings="auto"` and names of models, against local servers of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import HashingEmbeddings, Recall, TranscriptStore
from langchain_tokenmem.errors import RecallError

NOBODY = "http://127.0.0.1:9"
MODEL = HashingEmbeddings(64)


class Service(ThreadingHTTPServer):
    """Answers as Ollama (`/api/embed`) and OpenAI (`/v1/embeddings`) do; counts and may fail."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.paths: list[str] = []
        self.bodies: list[dict] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.paths.append(self.path)
        self.server.bodies.append(body)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        found = MODEL.embed_documents(texts)
        reply: dict = {"model": body["model"], "embeddings": found}
        if self.path == "/v1/embeddings":
            data = [
                {"object": "embedding", "index": at, "embedding": vector}
                for at, vector in enumerate(found)
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            reply = {"object": "list", "data": data, "model": body["model"], "usage": usage}
        if self.server.status != 200:
            reply = {"error": "model not found"}
        content = json.dumps(reply).encode()
        self.send_response(self.server.status)
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
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    pytest.importorskip("langchain_ollama", reason="langchain-ollama is not installed")
    with service() as made:
        monkeypatch.setenv("OLLAMA_HOST", made.url)
        yield made


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


def test_auto_takes_ollama_where_it_answers(ollama, openai):
    talk_is_found("auto")
    assert set(ollama.paths) == {"/api/embed"}
    assert {body["model"] for body in ollama.bodies} == {"nomic-embed-text"}
    assert openai.paths == []


def test_auto_takes_openai_where_no_ollama_runs(openai, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", NOBODY)
    talk_is_found("auto")
    assert set(openai.paths) == {"/v1/embeddings"}
    assert {body["model"] for body in openai.bodies} == {"text-embedding-3-small"}


def test_auto_takes_openai_where_ollama_lacks_the_model(ollama, openai):
    ollama.status = 404
    talk_is_found("auto")
    assert len(ollama.paths) == 1
    assert openai.paths


def test_auto_says_what_failed_where_nobody_answers_and_tries_again(openai, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", NOBODY)
    openai.status = 400
    with TranscriptStore("sqlite://") as store, Recall(store, embeddings="auto") as recall:
        store.add("s", [HumanMessage("What does it cost?"), AIMessage("42 euros a month.")])
        with pytest.raises(RecallError, match=r"No embedding model answers .*ollama.*openai"):
            recall.index()
        assert recall.search("costs in euros a month", session_id="s", k=1)[0].cosine is None
        openai.status = 200
        recall.index()
        assert recall.search("costs in euros a month", session_id="s", k=1)[0].cosine is not None


def test_a_model_by_name_is_asked_without_the_download_of_a_vocabulary(openai):
    talk_is_found("openai:text-embedding-3-large")
    assert {body["model"] for body in openai.bodies} == {"text-embedding-3-large"}
    given = [text for body in openai.bodies for text in body["input"]]
    assert "42 euros a month." in given  # words, no token numbers
