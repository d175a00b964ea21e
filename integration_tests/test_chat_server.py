"""The chat server of the examples on PostgreSQL."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from langchain_tokenmem import TranscriptStore

SERVER = Path(__file__).parents[1] / "examples" / "chat_server.py"


def test_the_chat_server_streams_on_postgresql(postgres, monkeypatch):
    pytest.importorskip("fastapi", reason="FastAPI is not installed (in the extra `peers`)")
    from fastapi.testclient import TestClient

    monkeypatch.setenv("DATABASE_URL", postgres)
    monkeypatch.delenv("MODEL", raising=False)
    spec = importlib.util.spec_from_file_location("chat_server_on_postgres", SERVER)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    fills = []
    with TestClient(module.app) as client:
        for question in ("My order is 4711.", "Where is it?", "Are you there?"):
            answer = client.post("/chat/monday", json={"text": question})
            parts = [json.loads(line) for line in answer.iter_lines()]
            assert [part["text"] for part in parts if "text" in part] == [*"Noted."]
            fills += [part["tokens"] for part in parts if "tokens" in part]
        assert "<title>Chat</title>" in client.get("/").text
    assert fills == sorted(set(fills))
    assert len(fills) == 3
    with TranscriptStore(postgres) as store:
        assert len(store.messages("demo/monday", user_id="demo")) == 6
