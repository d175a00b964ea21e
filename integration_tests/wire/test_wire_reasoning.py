"""Reasoning and compaction blocks as LangChain's own integrations put them on the wire."""

import json
from typing import Any

import pytest
from formatters import body_of
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.types import RequestRules
from tests.fakes import talk


def folded(messages: list[BaseMessage], provider: str) -> list[BaseMessage]:
    """Return the view after older turns were folded in front of the messages."""
    memory = TokenMemory(2_000, request=RequestRules(legality=provider))
    older = talk(2, words=120)
    state = memory.compact([*older, *messages], force=True)
    assert state["summary"]
    return memory.view([*older, *messages], state).messages


def test_signed_and_encrypted_reasoning_stays_with_its_item_after_a_change_of_the_prefix() -> None:
    call: Any = {"name": "look", "args": {"place": "x"}, "id": "c1"}
    signed = AIMessage(
        [{"type": "text", "text": "I look."}],
        tool_calls=[call],
        additional_kwargs={"__gemini_function_call_thought_signatures__": {"c1": "c2lnbmVk"}},
        response_metadata={"model_provider": "google_genai", "model_name": "gemini-3-pro"},
        id="a",
    )
    result = ToolMessage("Seen.", tool_call_id="c1", name="look")
    body = body_of("gemini", folded([HumanMessage("Look.", id="h"), signed, result], "gemini"))
    called = [part for c in body["contents"] for part in c["parts"] if "function_call" in part]
    assert [part["thought_signature"] for part in called] == ["c2lnbmVk"]

    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    encrypted = AIMessage(
        [item, {"type": "text", "text": "Yes.", "id": "msg_1"}],
        response_metadata={"model_provider": "openai", "model_name": "gpt-5"},
        id="a",
    )
    body = body_of("responses", folded([encrypted, HumanMessage("And now?", id="h")], "openai"))
    kinds = [one.get("role") or one["type"] for one in body["input"]]
    place = kinds.index("reasoning")
    assert body["input"][place] == item
    assert kinds[place + 1] == "assistant"


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_compaction_blocks_leave_as_they_came(provider: str) -> None:
    block: dict[str, Any] = {"type": "compaction", "content": "Notes.", "encrypted_content": "e"}
    if provider == "openai":
        block = {"type": "compaction", "id": "cmp_1", "encrypted_content": "e" * 40}
    said = [*talk(1)[:1], AIMessage("Covered.", id="a"), HumanMessage("Second.", id="h")]
    said += [
        AIMessage(
            [block, {"type": "text", "text": "Yes."}],
            response_metadata={"model_provider": provider},
        ),
        HumanMessage("Third."),
    ]
    shown = TokenMemory(4_000, request=RequestRules(legality=provider)).view(said).messages
    if provider == "openai":
        assert block in body_of("responses", shown)["input"]
        return
    sent = body_of("anthropic", shown)["messages"]
    blocks = [b for m in sent if isinstance(m["content"], list) for b in m["content"]]
    assert [b for b in blocks if b["type"] == "compaction"] == [block]
    assert "Covered." not in json.dumps(sent)
