"""The history door: a chat history whose messages always fit."""

from __future__ import annotations

import asyncio
import json
import warnings

import pytest
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryChatHistory, TranscriptStore
from langchain_tokenmem.errors import ScopeError, SummaryError
from langchain_tokenmem.types import Trigger
from tests.fakes import CharCounter, ListSummarizer, entries_of
from tests.legality import problems


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        yield store


def memory_of(window: int = 2_000) -> TokenMemory:
    return TokenMemory(
        TokenBudget(context_window=window), counter=CharCounter(), summarizer=ListSummarizer()
    )


def turn(number: int, words: int = 40) -> list:
    return [HumanMessage(f"question {number} " * words), AIMessage(f"answer {number} " * words)]


def texts(messages) -> list:
    return [m.content for m in messages]


@pytest.mark.slow
def test_the_stored_history_fits_again_with_a_fresh_memory_and_nothing_is_lost(store):
    memory = memory_of()
    for number in range(60):
        history = TokenMemoryChatHistory("s1", memory=memory, store=store)
        assert memory.count(history.messages).tokens <= memory.budget.limit
        history.add_messages(turn(number, 10))
    fresh = memory_of()
    again = TokenMemoryChatHistory("s1", memory=fresh, store=store)
    assert fresh.count(again.messages).tokens <= fresh.budget.limit
    assert again.messages == history.messages
    assert fresh.summarizer.requests == []
    everything = [m for n in range(60) for m in turn(n, 10)]
    assert texts(again.full_history()) == texts(everything)


def test_every_read_is_legal_and_begins_with_the_summary(store):
    history = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)
    for number in range(30):
        history.add_messages(turn(number, 10))
    shown = history.messages
    assert isinstance(shown[0], HumanMessage)
    first, *log = [block["text"] for block in shown[0].content]
    assert first == turn(0, 10)[0].content
    assert log
    assert all("<conversation_summary messages=" in entry for entry in log)
    assert problems(shown) == []
    assert shown[-1].content == turn(29, 10)[1].content


def test_full_history_carries_utc_stamps_and_the_rest_deep_equal(store):
    history = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)
    said = AIMessage(
        "x",
        id="a1",
        tool_calls=[{"name": "f", "args": {"q": [1]}, "id": "c"}],
        response_metadata={"model_name": "m"},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )
    history.add_messages([HumanMessage("hi", id="h"), said, ToolMessage("r", tool_call_id="c")])
    kept = history.full_history()[1]
    marks = kept.response_metadata.pop("tokenmem")
    assert marks["created_at"].endswith("+00:00")
    assert kept == said


@pytest.mark.parametrize("trigger", [None, Trigger()])
@pytest.mark.parametrize("legality", ["common", "mistral"])
def test_a_view_that_is_stored_by_another_history_never_edits_the_transcript(
    store, trigger, legality
):
    memory = TokenMemory(
        TokenBudget(context_window=1_000),
        counter=CharCounter(),
        summarizer=ListSummarizer(),
        legality=legality,
        trigger=trigger,
    )
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    said = [message for number in range(12) for message in turn(number, 30)]
    history.add_messages([*said, HumanMessage("One."), HumanMessage("Two.")])
    view = history.messages
    assert any("earlier" in str(message.content) for message in view)  # the log, or the marker
    TokenMemoryChatHistory("s1", memory=memory, store=store).add_messages(view)
    kept = history.full_history(include_superseded=True)
    assert texts(kept) == [*texts(said), "One.", "Two."]


def test_the_view_is_frozen_until_the_next_write(store):
    memory = memory_of()
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    for number in range(6):
        history.add_messages(turn(number))
    before = history.messages
    other = TokenMemoryChatHistory("s1", memory=memory, store=store)
    other.add_messages(turn(99))
    other.compact()
    assert history.messages == before
    history.messages.append("mine")
    assert history.messages == before
    history.add_messages([HumanMessage("next")])
    assert history.messages != before
    history.clear()
    assert history.messages == []
    assert history.full_history() == []


def wrapped(model, get_history):
    from langchain_core.runnables.history import RunnableWithMessageHistory

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated since langchain-core 1.3.3, still a door
        return RunnableWithMessageHistory(
            model, get_history, input_messages_key=None, history_messages_key=None
        )


def config(session_id: str = "s1") -> dict:
    return {"configurable": {"session_id": session_id}}


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["text", "list"])
def test_a_commit_between_read_and_write_of_a_wrapped_turn_loses_and_doubles_nothing(store, shape):
    memory = memory_of()
    background = TokenMemoryChatHistory("s1", memory=memory, store=store)
    for number in range(8):
        background.add_messages(turn(number))

    class Racing(FakeListChatModel):
        def _call(self, *args, **kwargs):
            background.compact()
            return super()._call(*args, **kwargs)

    chain = wrapped(
        Racing(responses=["fine"]),
        lambda session_id: TokenMemoryChatHistory(session_id, memory=memory, store=store),
    )
    given = "new question" if shape == "text" else [HumanMessage("new question")]
    chain.invoke(given, config())
    expected = [*texts(m for n in range(8) for m in turn(n)), "new question", "fine"]
    assert texts(background.full_history()) == expected
    assert store.state("s1").state["summary"]


async def test_async_runs_use_the_async_methods_of_the_history_only(store, monkeypatch):
    history = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)

    def refuse(*_args, **_kwargs):
        raise AssertionError("a sync method in an async run")

    for name in ("add_messages", "clear"):
        monkeypatch.setattr(TokenMemoryChatHistory, name, refuse)
    monkeypatch.setattr(TokenMemoryChatHistory, "messages", property(refuse))
    prompt = ChatPromptTemplate(
        [("system", "Be brief."), MessagesPlaceholder("h"), ("human", "{q}")]
    )
    from langchain_core.runnables.history import RunnableWithMessageHistory

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chain = RunnableWithMessageHistory(
            prompt | FakeListChatModel(responses=["one", "two"]),
            lambda _id: history,
            input_messages_key="q",
            history_messages_key="h",
        )
    await chain.ainvoke({"q": "first"}, config())
    pieces = [chunk.content async for chunk in chain.astream({"q": "second"}, config())]
    assert "".join(pieces) == "two"
    assert texts(await history.afull_history()) == ["first", "one", "second", "two"]
    await history.aclear()
    assert await history.aget_messages() == []


def test_wrapped_batch_and_stream(store):
    memory = memory_of()
    chain = wrapped(
        GenericFakeChatModel(messages=iter([AIMessage(f"answer {n}") for n in range(9)])),
        lambda session_id: TokenMemoryChatHistory(session_id, memory=memory, store=store),
    )
    chain.batch(["a", "b"], [config("x"), config("y")])
    assert "".join(c.content for c in chain.stream("again", config("x"))).startswith("answer")
    assert store.count("x") == 4
    assert store.count("y") == 2


def test_budgets_of_call_session_and_memory(store):
    memory = memory_of(4_000)
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    for number in range(12):
        history.add_messages(turn(number, 10))
    assert history.usage().max_tokens == memory.budget.limit
    small = TokenBudget(context_window=1_000)
    store.set_budget("s1", small)
    session = TokenMemoryChatHistory("s1", memory=memory, store=store)
    assert session.usage().max_tokens == small.limit
    assert session.usage().input_tokens <= small.limit
    own = TokenBudget(context_window=700)
    called = TokenMemoryChatHistory("s1", memory=memory, store=store, budget=own)
    assert called.usage().max_tokens == own.limit


def test_overhead_and_tools_are_counted(store):
    memory = memory_of(2_000)
    bare = TokenMemoryChatHistory("s1", memory=memory, store=store)
    bare.add_messages([HumanMessage("hi")])
    tools = [{"name": "search", "description": "finds things"}]
    around = TokenMemoryChatHistory(
        "s1", memory=memory, store=store, overhead_tokens=500, tools=tools
    )
    gained = around.usage().input_tokens - bare.usage().input_tokens
    assert gained == 500 + memory.count([], tools=tools).tokens - memory.count([]).tokens


def test_compact_by_hand_hands_the_instruction_on(store):
    memory = memory_of(4_000)
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    for number in range(20):
        history.add_messages(turn(number, 10))
    assert store.state("s1").state is None
    state = history.compact(instruction="keep the numbers")
    assert [entry["reason"] for entry in entries_of(state)] == ["manual"]
    assert memory.summarizer.requests[-1].instruction == "keep the numbers"
    assert history.usage().parts["summary"] > 0


async def test_sync_and_async_give_the_same_view(store):
    memory = memory_of()
    for number in range(20):
        await TokenMemoryChatHistory("s1", memory=memory, store=store).aadd_messages(
            turn(number, 9)
        )
    one = TokenMemoryChatHistory("s1", memory=memory, store=store)
    two = TokenMemoryChatHistory("s1", memory=memory, store=store)
    assert await one.aget_messages() == await asyncio.to_thread(lambda: two.messages)
    assert await one.ausage() == two.usage()


def test_a_failing_summarizer_leaves_state_and_transcript_unchanged(store):
    class Failing(ListSummarizer):
        def summarize(self, request):
            raise RuntimeError("provider down")

    good = memory_of()
    history = TokenMemoryChatHistory("s1", memory=good, store=store)
    for number in range(20):
        history.add_messages(turn(number, 9))
    bad = TokenMemory(good.budget, counter=CharCounter(), summarizer=Failing())
    with pytest.raises(SummaryError, match="RuntimeError: provider down"):
        TokenMemoryChatHistory("s1", memory=bad, store=store).compact()
    history.add_messages([m for n in range(40, 80) for m in turn(n, 9)])
    view = TokenMemoryChatHistory("s1", memory=bad, store=store).view()
    assert view.usage.input_tokens <= bad.budget.limit
    assert any("provider down" in warning for warning in view.warnings)
    assert store.state("s1").state is None
    assert store.count("s1") == 120


def test_a_history_that_is_sent_in_full_again_is_stored_once(store):
    history = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)
    said = [m for n in range(3) for m in turn(n, 2)]
    for _ in range(10):
        history.add_messages(said)
    assert texts(history.full_history()) == texts(said)


def test_the_repair_of_a_dangling_call_is_logged_once(store, caplog):
    memory = memory_of()
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    history.add_messages(
        [
            HumanMessage("go"),
            AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
            HumanMessage("hello?"),
        ]
    )
    for _ in range(3):
        again = TokenMemoryChatHistory("s1", memory=memory, store=store)
        assert problems(again.messages) == []
        assert again.view().warnings
    assert len([r for r in caplog.records if "interrupted" in r.getMessage()]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
def test_signed_blocks_and_extras_come_out_of_the_store_unchanged(store, provider):
    blocks = [
        {"type": "thinking", "thinking": "Let me see.", "signature": "RXJy/+=="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "I look.", "extras": {"signature": "Q2lw"}},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"z": 1, "a": [None, 0.1]}},
    ][: None if provider == "anthropic" else 3]
    signed = AIMessage(
        blocks,
        tool_calls=[{"name": "f", "args": {"z": 1, "a": [None, 0.1]}, "id": "c"}],
        additional_kwargs={"__gemini_function_call_thought_signatures__": {"c": "c2ln"}},
        response_metadata={"model_provider": {"gemini": "google_genai"}.get(provider, provider)},
        id="signed",
    )
    asked = HumanMessage("Go.", id="h")
    memory = TokenMemory(
        TokenBudget(2_000), counter=CharCounter(), summarizer=ListSummarizer(), legality=provider
    )
    for number in range(30):
        store.add("s1", turn(number, 10))
    store.add("s1", [asked, signed, ToolMessage("ok", tool_call_id="c", id="t")])
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    history.compact()
    view = TokenMemoryChatHistory("s1", memory=memory, store=store).messages
    assert "conversation_summary" in view[0].text
    [shown] = [m for m in view if m.id == "signed"]
    # What Anthropic bound to a request that is no longer sent is left out of the view.
    assert json.dumps(shown.content) == json.dumps(blocks[2 if provider == "anthropic" else 0 :])
    assert json.dumps(store.messages("s1")[-2].content) == json.dumps(blocks)
    assert shown.additional_kwargs == signed.additional_kwargs
    assert shown.tool_calls == signed.tool_calls


@pytest.mark.slow
def test_a_system_message_in_the_transcript_outlives_summaries(store):
    memory = TokenMemory(TokenBudget(context_window=1_000))
    history = TokenMemoryChatHistory("rules", memory=memory, store=store)
    history.add_messages([SystemMessage("Speak German.", id="sys")])
    for number in range(40):
        history.add_messages([HumanMessage(f"q{number} " * 40), AIMessage(f"a{number} " * 40)])
        assert history.messages[0].content.startswith("Speak German.")
    assert "conversation_summary" in history.messages[1].text


def test_another_user_can_neither_read_write_nor_clear_a_session(store):
    mine = TokenMemoryChatHistory("s1", memory=memory_of(), store=store, user_id="ann")
    mine.add_messages([HumanMessage("my pin is 1234"), AIMessage("noted")])
    thief = TokenMemoryChatHistory("s1", memory=memory_of(), store=store, user_id="eve")
    for act in (
        lambda: thief.messages,
        thief.full_history,
        thief.clear,
        thief.usage,
        thief.compact,
        lambda: thief.add_messages([HumanMessage("x")]),
    ):
        with pytest.raises(ScopeError):
            act()
    assert store.count("s1") == 2


def test_a_turn_said_again_in_the_same_words_is_stored_again(store):
    history = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)
    for _ in range(3):
        history.add_messages([HumanMessage("yes"), AIMessage("ok")])
    assert texts(history.full_history()) == ["yes", "ok"] * 3
