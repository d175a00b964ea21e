"""Reasoning items as LangChain's own integrations put them on the wire."""

from __future__ import annotations

import pytest
from formatters import REASON, body_of
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.types import RequestRules

pytest.importorskip("langchain_openai", reason=REASON)


def test_encrypted_reasoning_of_openai_stays_with_its_item_after_a_change_of_the_prefix() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    answer = AIMessage(
        [item, {"type": "text", "text": "Yes.", "id": "msg_1"}],
        response_metadata={"model_provider": "openai", "model_name": "gpt-5"},
        id="a",
    )
    older = [
        kind("word " * count, id=f"o{count}")
        for kind, count in (
            (HumanMessage, 200),
            (AIMessage, 210),
            (HumanMessage, 400),
            (AIMessage, 300),
        )
    ]
    said = [*older, answer, HumanMessage("And now?", id="h")]
    memory = TokenMemory(2_000, request=RequestRules(legality="openai"))
    state = memory.compact(said, force=True)
    assert state["summary"]
    body = body_of("responses", memory.view(said, state).messages)
    kinds = [one.get("role") or one["type"] for one in body["input"]]
    place = kinds.index("reasoning")
    assert body["input"][place] == item
    assert kinds[place + 1] == "assistant"
