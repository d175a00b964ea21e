"""Names of embedding models, against a local server of ours."""

from collections.abc import Iterator
from typing import Any

import pytest
from json_server import json_server
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.recall import HashingEmbeddings

MODEL = HashingEmbeddings(64)


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict]]:
    """What a server that answers as OpenAI does (`/v1/embeddings`) is asked."""
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    bodies: list[dict] = []

    def answer(_path: str, body: Any) -> tuple[int, Any]:
        bodies.append(body)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = enumerate(MODEL.embed_documents(texts))
        data = [{"object": "embedding", "index": at, "embedding": one} for at, one in vectors]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return 200, {"object": "list", "data": data, "model": body["model"], "usage": usage}

    with json_server(answer) as url:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        monkeypatch.setenv("OPENAI_API_BASE", f"{url}/v1")
        yield bodies


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
