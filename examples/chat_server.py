"""A chat server with FastAPI: streamed answers, and how full the window is, on PostgreSQL.

Try it offline:     pip install fastapi httpx; python examples/chat_server.py
With Docker:        docker compose -f examples/compose.yaml up
Without Docker, on a PostgreSQL of yours, and with a real model:
    pip install 'langchain-tokenmem[postgres]' fastapi uvicorn langchain-openai
    createdb chat
    export DATABASE_URL=postgresql://localhost/chat MODEL=openai:gpt-4o-mini
    uvicorn --app-dir examples chat_server:app          # then open http://127.0.0.1:8000
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, StreamingResponse
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessageChunk

from langchain_tokenmem import (
    Recall,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
)


@asynccontextmanager
async def opened(app: FastAPI) -> AsyncIterator[None]:
    """Make the agent when the server starts, and close its store when it stops."""
    name = os.environ.get("MODEL")
    model: Any = init_chat_model(name) if name else FakeListChatModel(responses=["Noted."])
    url = os.environ.get("DATABASE_URL", "sqlite:///chat.db")
    async with TranscriptStore(url, require_user=True) as store:
        window = None if name else 8_000  # a real model tells its own
        memory = TokenMemory(window, recall=Recall(store))
        app.state.agent = create_agent(
            model,
            middleware=[TokenMemoryMiddleware(memory)],
            checkpointer=TokenMemorySaver(store),
        )
        yield


app = FastAPI(lifespan=opened)


@app.get("/")
async def page() -> FileResponse:
    """Return the chat."""
    return FileResponse(Path(__file__).with_name("chat_page.html"))


@app.post("/chat/{thread}")
async def chat(thread: str, question: dict[str, str]) -> StreamingResponse:
    """Answer: one JSON object a line, `{"text": ...}` or `{"tokens": ..., "limit": ...}`."""
    user = "demo"  # take it from your login: whoever names a thread must own it
    config: Any = {"configurable": {"thread_id": f"{user}/{thread}", "user_id": user}}

    async def lines() -> AsyncIterator[str]:
        given = {"messages": question["text"]}
        modes = ["messages", "custom"]
        async for mode, part in app.state.agent.astream(given, config, stream_mode=modes):
            if mode == "messages" and isinstance(part[0], AIMessageChunk):
                yield json.dumps({"text": part[0].text}) + "\n"
            elif mode == "custom" and part.get("event") == "view":
                yield json.dumps({"tokens": part["tokens"], "limit": part["limit"]}) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")


def main() -> None:
    """Ask the server two things, without a network."""
    from fastapi.testclient import TestClient  # noqa: PLC0415  # needs httpx

    with TestClient(app) as client:
        for text in ("My order is 4711.", "Where is it?"):
            print(f"> {text}")
            print(client.post("/chat/monday", json={"text": text}).text, end="")


if __name__ == "__main__":
    main()
