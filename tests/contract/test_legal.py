"""No request is one that its provider refuses, whatever the conversation holds.

The rules are in `tests/providers.py`, written from the providers' own documentation.
"""

import hashlib
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.types import RequestRules
from tests.contract.chats import Talker, Way, long_turns, texts, ways
from tests.providers import CHECKS, RefusedError, blocks
from tests.strategies import conversations

FABLE = {"model_name": "claude-fable-5-1", "model_provider": "anthropic"}
THINKING = {"thinking", "redacted_thinking"}


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: " + "seen " * 80


def signature(prefix: Sequence[BaseMessage], tools: Any) -> str:
    """Return a signature over a prefix: system text, tools, and every message before a block."""
    said = [[m.type, m.content, getattr(m, "tool_calls", 0)] for m in prefix]
    written = json.dumps([said, tools], default=str)
    return hashlib.sha256(written.encode()).hexdigest()


def thoughts(message: BaseMessage) -> list[dict[str, Any]]:
    return [block for block in blocks(message) if block["type"] in THINKING]


class Fable(Talker):
    """A model as strict as claude-fable-5-1: thinking is valid behind its own prefix only.

    Each answer is thinking and a text; where tools are bound, every other answer calls one.
    """

    name_: str = "claude-fable-5-1"

    def _answer(self, messages: list[BaseMessage], keywords: dict[str, Any]) -> AIMessage:
        CHECKS["anthropic"](messages)
        tools = [convert_to_openai_tool(one) for one in keywords.get("tools") or []]
        for place, message in enumerate(messages):
            for block in thoughts(message):
                is_same = block.get("signature", block.get("data")) == signature(
                    messages[:place], tools
                )
                if not is_same:
                    raise RefusedError("thinking: the block is bound to a different conversation")
        super()._answer(messages, keywords)
        number, signed = len(self.requests), signature(messages, tools)
        thought = {"type": "thinking", "thinking": f"Thought {number}.", "signature": signed}
        if number % 3 == 0:
            thought = {"type": "redacted_thinking", "data": signed}
        calls: Any = []
        if tools and messages[-1].type == "human":
            calls = [{"name": "look", "args": {"place": f"Place {number}"}, "id": f"c{number}"}]
        said = {"type": "text", "text": f"Answer {number}. " + "word " * 20}
        used = [{"type": "tool_use", "input": c["args"], **c} for c in calls]
        used = [{key: value for key, value in one.items() if key != "args"} for one in used]
        return AIMessage([thought, said, *used], tool_calls=calls, response_metadata=FABLE)


def sent(request: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    return [message.model_dump(exclude={"id", "response_metadata"}) for message in request]


def kept_prefixes(requests: Sequence[Sequence[BaseMessage]]) -> list[bool]:
    """Return for each request but the first whether it begins with the one before it.

    Then it also holds the thinking of the answer to that one.
    """
    kept = []
    for before, after in pairwise(requests):
        begins = sent(after)[: len(before)] == sent(before)
        kept.append(begins)
        if begins:
            assert thoughts(after[len(before)]), "reasoning is left out though nothing has changed"
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("background", [False, True])
async def test_reasoning_is_sent_only_behind_the_prefix_that_it_was_produced_with(
    way: Way, *, background: bool
):
    """Whenever a summary is finished: a reply to an older request may come after it."""
    memory = TokenMemory(1_600, background=background)
    chat = way.chat(memory, model=Fable(), tools=[look], system="You are a clerk.")
    await chat.talk(6, words=40)
    memory.close()
    assert len(chat.requests) == 12
    if not background:
        kept = kept_prefixes(chat.requests)
        assert False in kept, "the window is small: the prefix has to change sometimes"
        assert sum(kept) >= len(kept) // 2


@pytest.mark.slow
@ways("by-hand", "chain", "middleware", "node")
async def test_a_changed_system_text_leaves_out_the_reasoning_before_it_for_good(way: Way):
    memory = TokenMemory(16_000, background=False)
    chat = way.chat(memory, model=Fable(), system="It is Monday.")
    for number, question in enumerate(long_turns(6, words=5)):
        if number in {2, 4}:  # the second one is the first text again
            chat.setting.system = {2: "It is Tuesday.", 4: "It is Monday."}[number]
            chat.set_up() if way.name != "by-hand" else None
        await chat.ask(question)
    assert kept_prefixes(chat.requests) == [True, False, True, False, True]


@ways("history", "chain")
async def test_an_edit_of_an_earlier_message_leaves_out_the_reasoning_behind_it(way: Way):
    memory = TokenMemory(16_000, background=False)
    chat = way.chat(memory, model=Fable())
    await chat.talk(3, words=5)
    first = chat.said()[0]
    chat.store.add("t1", [HumanMessage("Something else.", id=first.id)])
    await chat.ask("And now?")
    await chat.ask("And then?")
    assert kept_prefixes(chat.requests) == [True, True, False, True]


STEPS = ["ask", "ask", "ask", "system", "tools", "edit", "remove", "again", "fold", "fork"]


@pytest.mark.slow
@given(
    steps=st.lists(st.sampled_from(STEPS), min_size=4, max_size=10),
    window=st.sampled_from([700, 1_200, 16_000]),
    is_known=st.booleans(),
)
def test_nothing_that_happens_between_two_calls_makes_reasoning_illegal(
    steps: list[str], window: int, *, is_known: bool
):
    model = Fable()
    memory = TokenMemory(
        TokenBudget(context_window=window, model=model.name_ if is_known else None)
    )
    said: list[BaseMessage] = []
    states: list[tuple[list[BaseMessage], Any]] = [([], None)]
    state, system, tools = None, "It is Monday.", [look]
    for number, step in enumerate(["ask", *steps, "ask"]):
        if step == "system":
            system += " And late."
        elif step == "tools":
            tools = [] if tools else [look]
        elif step == "edit" and said:
            said[0] = HumanMessage(f"Another question, {number}.", id=said[0].id)
        elif step == "remove" and len(said) > 4:
            del said[len(said) // 2]
        elif step == "again" and said and said[-1].type == "ai":
            said.pop()
        elif step == "fork":
            before, state = states[len(states) // 2]
            said = [*before]
            del states[len(states) // 2 + 1 :]
        if not said or said[-1].type == "ai":
            said.append(HumanMessage(f"Question {number}. " + "word " * 30, id=f"h{number}"))
        around: Any = {"system": system, "tools": tools}
        state, view = memory.compact_and_view(said, state, force=step == "fold", **around)
        state = json.loads(json.dumps(state))
        answer = model.bind_tools(tools).invoke(view.messages)
        said.append(answer.model_copy(update={"id": f"a{number}"}))
        said += [
            ToolMessage("seen " * 30, tool_call_id=call["id"], id=f"t{number}")
            for call in answer.tool_calls
        ]
        states.append(([*said], state))


def test_reasoning_of_models_without_the_rule_stays_inside_a_running_tool_call():
    """They refuse a list whose newest turn calls tools without the thinking before it."""
    memory = TokenMemory(1_200, request=RequestRules(legality="anthropic"))
    said: list[BaseMessage] = [HumanMessage("Look at all places.", id="h")]
    state = None
    for number in range(12):
        thought = {"type": "thinking", "thinking": "Hm.", "signature": f"s{number}"}
        metadata = {"model_name": "claude-sonnet-4-5-20250929", "model_provider": "anthropic"}
        call: Any = {"name": "look", "args": {"place": str(number)}, "id": f"c{number}"}
        said += [
            AIMessage([thought], tool_calls=[call], id=f"a{number}", response_metadata=metadata),
            ToolMessage("seen " * 60, tool_call_id=f"c{number}", id=f"t{number}"),
        ]
        state, view = memory.compact_and_view(said, state)
        answers = [message for message in view.messages if message.type == "ai"]
        assert all(map(thoughts, answers))
    assert state["summary"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "compaction", "content": "The parcel is blue.", "encrypted_content": "e=="},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA" * 40},
    ],
    ids=["anthropic", "openai"],
)
async def test_a_compaction_of_the_provider_goes_back_unchanged_in_place_of_what_it_covers(
    way: Way, block: dict[str, Any]
):
    provider = "anthropic" if "content" in block else "openai"
    name = {"anthropic": "claude-opus-4-8", "openai": "gpt-5"}[provider]
    metadata = {"model_provider": provider, "model_name": name}
    compacted = AIMessage([block, {"type": "text", "text": "Noted."}], response_metadata=metadata)
    model = Talker(answer=["Noted.", "Noted.", compacted, "Noted."], name_=name)
    memory = TokenMemory(16_000, background=False)
    chat = way.chat(memory, model=model)
    questions = long_turns(5)
    for question in questions:
        await chat.ask(question)
    for request in chat.requests[3:]:
        assert [b for m in request for b in blocks(m) if b["type"] == "compaction"] == [block]
        assert questions[1] not in texts(request)
    assert questions[1] in texts(chat.said())


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_compaction_of_the_provider_is_never_folded_away_alone(*, is_readable: bool):
    summarized: list[str] = []

    def summarizer(messages: Sequence[BaseMessage]) -> str:
        summarized.append(str([message.content for message in messages]))
        return "Notes."

    memory = TokenMemory(1_600, summarizer=summarizer)
    block = {"type": "compaction", "encrypted_content": "e" * 80}
    if is_readable:
        block["content"] = "The parcel is blue."
    said: list[BaseMessage] = [HumanMessage("First.", id="h"), AIMessage("Weight 4711.", id="a")]
    said += [HumanMessage("Go on.", id="h1"), AIMessage([block, {"type": "text", "text": "Yes."}])]
    state = memory.compact(said)
    for question in long_turns(12):
        said += [HumanMessage(question), AIMessage("word " * 40)]
        state, view = memory.compact_and_view(said[:-1], state)
        shown = [b for m in view.messages for b in blocks(m) if b["type"] == "compaction"]
        is_told = "Weight 4711." in "".join(summarized)
        assert shown == [block] or (is_readable and is_told)
    assert summarized
    if is_readable:
        assert "The parcel is blue." in "".join(summarized)


def test_a_compaction_of_the_provider_is_counted():
    memory = TokenMemory(16_000, request=RequestRules(legality="anthropic"))
    plain = [HumanMessage("Hello."), AIMessage("Hello.")]
    for block in (
        {"type": "compaction", "content": "The parcel is blue. " * 100},
        {"type": "compaction", "encrypted_content": "e" * 4_000},
    ):
        whole = [plain[0], AIMessage([block, {"type": "text", "text": "Hello."}])]
        assert memory.count(whole).tokens >= memory.count(plain).tokens + 400


def hostile() -> list[BaseMessage]:
    """Return a conversation that every strict provider would refuse, in many ways."""
    call: Any = {"name": "look", "args": {"place": "x"}, "id": "c1"}
    other: Any = {**call, "id": "c2"}
    broken: Any = {"name": "look", "args": "{oh", "id": "c3", "error": None}
    signed = {"type": "thinking", "thinking": "hm", "signature": "s"}
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    foreign = {"model_provider": "deepseek", "model_name": "r1"}
    return [
        AIMessage("I speak first."),
        ToolMessage("Nobody asked.", tool_call_id="gone"),
        HumanMessage(""),
        HumanMessage("Two in a row."),
        AIMessage("", tool_calls=[call, other]),
        ToolMessage("Only one.", tool_call_id="c1"),
        ToolMessage("Once more.", tool_call_id="c1"),
        SystemMessage("Rules in the middle."),
        AIMessage(""),
        AIMessage([signed], response_metadata=foreign),
        AIMessage([item]),
        AIMessage("", tool_calls=[call]),
        HumanMessage("Stop!"),
        ToolMessage("Too late.", tool_call_id="c1"),
        AIMessage("", invalid_tool_calls=[broken]),
        AIMessage("Two of mine."),
        AIMessage("In a row."),
        *[HumanMessage("long " * 120), AIMessage([{"type": "text", "text": "long " * 120}])] * 3,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("provider", sorted(CHECKS))
async def test_no_provider_refuses_a_request_however_broken_the_conversation(
    way: Way, provider: str
):
    def answer(request: list[BaseMessage]) -> str:
        CHECKS[provider](request)
        return "Noted."

    memory = TokenMemory(1_200, request=RequestRules(legality=provider), background=False)
    chat = way.chat(memory, model=Talker(answer=answer))
    script = hostile()
    await chat.ask([*script[:14], HumanMessage("Are you there?")])
    await chat.ask([*script[14:], HumanMessage("Are you still there?")])
    await chat.ask("Good.")
    assert len(chat.requests) == 3
    with pytest.raises(RefusedError):
        CHECKS[provider](script)


@given(
    messages=conversations(8),
    more=conversations(4),
    window=st.integers(600, 4_000),
    legality=st.sampled_from([*sorted(CHECKS), "strict"]),
    force=st.booleans(),
)
def test_no_conversation_at_all_gives_a_request_that_is_refused(
    messages: list[BaseMessage], more: list[BaseMessage], window: int, legality: str, *, force: bool
):
    memory = TokenMemory(window, request=RequestRules(legality=legality))
    check = CHECKS["mistral" if legality == "strict" else legality]
    state = None
    for said in (messages, [*messages, *more]):
        asked = [HumanMessage("start"), *said, HumanMessage("end", id="end")]
        state, view = memory.compact_and_view(asked, state, force=force)
        check(view.messages)
