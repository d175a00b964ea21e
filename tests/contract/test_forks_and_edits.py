"""Forks, time travel, resumed runs, removals, edits: a request has its own branch's words only."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt

from langchain_tokenmem import TokenMemory, TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ThreadConflictError
from tests.contract.chats import Talker, Way, calling, in_thread, long_turns, texts, ways

ChatOf = Callable[..., Any]
GRAPHS = ways("middleware", "node", "nodes", both=True)


@pytest.fixture(params=["TokenMemorySaver", "InMemorySaver"])
def chat_of(way: Way, request: pytest.FixtureRequest) -> ChatOf:
    """Return a function that begins a conversation on either checkpointer, as a graph's chat."""

    def begin(mode: str | None = None, **setting: Any) -> Any:
        memory = TokenMemory(2_000, background=False, mode=mode)
        saver = InMemorySaver() if request.param == "InMemorySaver" else None
        return way.chat(memory, saver=saver, **setting)

    return begin


async def at_head(chat: Any) -> Any:
    """Return the newest checkpoint of a thread."""
    graph, config = chat.graph, chat.config
    return await graph.aget_state(config) if chat.is_async else graph.get_state(config)


async def update(chat: Any, *messages: BaseMessage) -> None:
    """Change the messages of a thread from outside."""
    values = {"messages": list(messages)}
    if chat.is_async:
        await chat.graph.aupdate_state(chat.config, values)
    else:
        chat.graph.update_state(chat.config, values)


@pytest.mark.slow
@GRAPHS
async def test_a_fork_sees_nothing_of_the_branch_that_it_left(chat_of: ChatOf):
    chat = chat_of()
    for n, question in enumerate(long_turns(3)):
        await chat.ask(HumanMessage(question, id=f"h{n}"))
    early = (await at_head(chat)).config
    for n in range(12):
        await chat.ask(HumanMessage(f"Left: branch word{n} " + "left " * 120, id=f"left{n}"))
    assert "<conversation_summary" in texts(chat.requests[-1]), "the branch was folded"
    end = (await at_head(chat)).config

    await chat.call(chat.graph, {"messages": [HumanMessage("Fork?", id="fork")]}, early)
    forked = chat.requests[-1]
    assert "left" not in texts(forked).lower()
    assert "<conversation_summary" not in texts(forked)
    assert [m.id for m in forked if m.type == "human"] == ["h0", "h1", "h2", "fork"]

    await chat.call(chat.graph, {"messages": [HumanMessage("Back?", id="back")]}, end)
    assert "Fork?" not in texts(chat.requests[-1])
    assert "word11" in texts(chat.requests[-1])


@GRAPHS
async def test_a_cleared_chat_starts_anew(chat_of: ChatOf):
    chat = chat_of()
    await update(chat, SystemMessage("Be brief.", id="rule"))
    for n in range(6):
        await chat.ask(HumanMessage(f"Old: word{n} " + "old " * 300, id=f"old{n}"))
    assert "<conversation_summary" in texts(chat.requests[-1]), "the conversation was folded"
    await update(chat, RemoveMessage(REMOVE_ALL_MESSAGES), SystemMessage("Be brief.", id="rule"))
    for n in range(6):
        await chat.ask(HumanMessage(f"New: topic{n} " + "new " * 300, id=f"new{n}"))
        assert "word" not in texts(chat.requests[-1])
    assert "<conversation_summary" in texts(chat.requests[-1]), "the new one is folded as well"


@GRAPHS
async def test_a_chat_that_is_cleared_before_its_first_summary_leaves_no_notes(chat_of: ChatOf):
    chat = chat_of(mode="conversation")
    for n in range(2):
        await chat.ask(f"My name is Ann Marlowe, and I live in Lund. {'word ' * 20 * n}")
    await update(chat, RemoveMessage(REMOVE_ALL_MESSAGES))
    request = await chat.last("Who am I?")
    assert texts(request).strip() == "Who am I?"
    request = await chat.last("My name is Bob.")
    assert "Ann" not in texts(request)


@pytest.mark.slow
@GRAPHS
async def test_a_replayed_checkpoint_sends_what_was_sent(chat_of: ChatOf):
    chat = chat_of()
    for n, question in enumerate(long_turns(7, words=250)):
        await chat.ask(HumanMessage(question, id=f"h{n}"))
    assert "<conversation_summary" in texts(chat.requests[6])
    for number in (6, 3):
        past = [
            found
            for found in chat.graph.get_state_history(chat.config)
            if found.next and [m.id for m in found.values["messages"]][-1:] == [f"h{number}"]
        ]
        before = [m.model_dump(exclude={"id"}) for m in chat.requests[number]]
        assert texts(chat.requests[number]).rstrip().endswith("word")
        await chat.call(chat.graph, None, past[0].config)
        assert [m.model_dump(exclude={"id"}) for m in chat.requests[-1]] == before


@tool
def send(parcel: str) -> str:
    """Send a parcel, after somebody has agreed."""
    return f"{parcel}: {interrupt('Send it?')}"


@tool
def weigh(parcel: str) -> str:
    """Weigh a parcel."""
    return f"{parcel} weighs 3 kg."


def sending(request: list[BaseMessage]) -> AIMessage | str:
    newest = request[-1]
    if isinstance(newest, ToolMessage):
        return "It is done."
    if "Send" not in newest.text:
        return "Noted."
    calls = [calling(name, name, parcel="P-1").tool_calls[0] for name in ("weigh", "send")]
    return AIMessage("", tool_calls=calls)


@pytest.mark.slow
@GRAPHS
async def test_a_run_that_was_interrupted_goes_on_with_its_calls_and_results(chat_of: ChatOf):
    chat = chat_of(model=Talker(answer=sending), tools=[weigh, send])
    await chat.talk(12)
    await chat.ask("Send " + "it now " * 100)
    assert (await at_head(chat)).interrupts
    await chat.call(chat.graph, Command(resume="agreed"))
    request = chat.requests[-1]
    assert [m.text for m in request[-2:]] == ["P-1 weighs 3 kg.", "P-1: agreed"]
    assert [call["name"] for call in request[-3].tool_calls] == ["weigh", "send"]
    assert chat.said()[-1].text == "It is done."
    assert [m.text for m in chat.said() if m.type == "tool"] == ["P-1 weighs 3 kg.", "P-1: agreed"]
    assert (await chat.last("And now?"))[-1].text == "And now?"


@GRAPHS
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_removed_message_is_in_no_later_request(chat_of: ChatOf, *, is_first: bool):
    chat = chat_of()
    fact = HumanMessage("The code is QUOKKA-4711.", id="fact")
    for said in [fact] if is_first else ["Hello.", fact, "Well."]:
        await chat.ask(said)
    await update(chat, RemoveMessage(id="fact"))
    assert "QUOKKA" not in texts(await chat.last("What is the code?"))
    assert "fact" not in [m.id for m in chat.said()]
    assert "QUOKKA" not in texts(await chat.reopened().last("And now?"))


@pytest.mark.slow
@GRAPHS
async def test_a_removed_message_is_kept_in_the_transcript_or_hidden_as_the_saver_was_told(
    way: Way,
):
    for on_remove, is_kept in (("keep", True), ("hide", False)):
        store, thread = way.store(), f"t-{on_remove}"
        saver = TokenMemorySaver(store, on_remove=on_remove)
        memory = TokenMemory(2_000, background=False)
        chat: Any = way.chat(memory, store=store, saver=saver, thread=thread)
        for text in ("Hello.", HumanMessage("The code is QUOKKA-4711.", id="fact")):
            await chat.ask(text)
        await chat.talk(10, words=170)
        assert "<conversation_summary" in texts(chat.requests[-1])
        assert "QUOKKA" in texts(chat.requests[-1])
        before = (await at_head(chat)).config
        await update(chat, RemoveMessage(id="fact"))
        request = await chat.last("What is the code?")
        assert ("QUOKKA" in texts(request)) == is_kept, "a summary tells what is kept"
        assert (store.get(thread, "fact") is not None) == is_kept
        assert store.get(thread, "fact", include_superseded=True) is not None
        await chat.call(chat.graph, {"messages": [HumanMessage("Back?")]}, before)
        assert "QUOKKA" in texts(chat.requests[-1]), "this branch has never removed it"
        assert store.get(thread, "fact") is not None, "the transcript follows the head"


@GRAPHS
async def test_an_edit_of_the_newest_question_is_what_the_model_is_asked(chat_of: ChatOf):
    chat = chat_of()
    await chat.ask(HumanMessage("The first wording.", id="q"))
    request = await chat.last(HumanMessage("Another wording.", id="q"))
    assert [m.text for m in request if m.type == "human"] == ["Another wording."]


@ways("middleware", "node")
async def test_a_run_that_another_one_has_overtaken_is_an_error_where_it_was_asked_for(way: Way):
    store = way.store()
    saver = TokenMemorySaver(store, on_conflict="raise")
    slow: Any = way.chat(TokenMemory(8_000), store=store, saver=saver)
    await slow.ask("First.")
    other: Any = way.chat(TokenMemory(8_000), store=store, saver=saver)

    def answer(request: list[BaseMessage]) -> str:
        if request[-1].text == "Slow.":  # while this model is at work, another run takes a turn
            with ThreadPoolExecutor(1) as pool:  # a thread of its own: else it were a sub-graph
                given = {"messages": "Quick."}
                pool.submit(other.graph.invoke, given, other.config, durability="sync").result()
        return "Noted."

    slow.model.answer = answer
    with pytest.raises(ThreadConflictError):
        slow.graph.invoke({"messages": "Slow."}, slow.config, durability="sync")
    said = [m.text for m in store.messages("t1")]
    assert "Quick." in said
    assert [m.text for m in other.said()][-2:] == ["Quick.", "Noted."]


class Counts(MessagesState):
    """What two nodes of one step write."""

    weighed: str
    sent: str


def test_what_a_node_has_written_beside_one_that_failed_is_not_lost(store: TranscriptStore):
    weighed: list[str] = []

    def weigh_all(_: Counts) -> dict[str, Any]:
        weighed.append("once")
        return {"messages": [AIMessage("Weighed.")], "weighed": "3 kg", "sent": "no"}

    def fail_once(_: Counts) -> dict[str, Any]:
        if not failed:
            failed.append("once")
            raise ConnectionError("reset")
        return {"messages": [AIMessage("Asked.")]}

    failed: list[str] = []
    builder = StateGraph(Counts).add_node("weigh", weigh_all).add_node("ask", fail_once)
    builder.add_edge(START, "weigh").add_edge(START, "ask")
    graph = builder.compile(checkpointer=TokenMemorySaver(store))
    config = {**in_thread(), "max_concurrency": 1}
    with pytest.raises(ConnectionError):
        graph.invoke({"messages": "Weigh and ask."}, config)
    held = graph.invoke(None, config)
    assert weighed == ["once"], "its writes were kept, so it did not run again"
    assert (held["weighed"], held["sent"]) == ("3 kg", "no")
    assert {"Weighed.", "Asked."} <= {m.text for m in held["messages"]}
