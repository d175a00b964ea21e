"""Names of embedding models, against a local server of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.recall import HashingEmbeddings

MODEL = HashingEmbeddings(64)


class Handler(BaseHTTPRequestHandler):
    """Answers as OpenAI does (`/v1/embeddings`), and remembers what it was asked."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = [
            {"object": "embedding", "index": at, "embedding": vector}
            for at, vector in enumerate(MODEL.embed_documents(texts))
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


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict]]:
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.daemon_threads = True
        made.bodies = []
        threading.Thread(target=made.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{made.server_port}/v1")
        yield made.bodies
        made.shutdown()


def test_a_model_by_name_is_asked_without_the_download_of_a_vocabulary(openai):
    name = "text-embedding-3-large"
    with (
        TranscriptStore("sqlite://", shared=True) as store,
        Recall(store, embeddings=f"openai:{name}") as recall,
    ):
        store.add("s", [HumanMessage("What does it cost?"), AIMessage("42 euros a month.")])
        recall.index()
        (hit,) = recall.search("costs in euros a month", session_id="s", k=1)
        assert hit.text == "42 euros a month."
        assert hit.cosine is not None
    assert {body["model"] for body in openai} == {name}
    given = [text for body in openai for text in body["input"]]
    assert "42 euros a month." in given  # words, no token numbers
