"""Words stay in their scope: of a user, a project, a session, a thread."""

from itertools import count
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import (
    MemoryMessagesState,
    Notebook,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.graphs import MemoryAgentState, pin_update
from langchain_tokenmem.summarizers import ModelSummarizer
from langchain_tokenmem.tools import compact_conversation_tool
from tests.contract.chats import (
    Talker,
    Way,
    agent_of,
    calling,
    in_thread,
    long_turns,
    pin,
    texts,
    ways,
)

WINDOW = 2_000


class Numbered:
    """A summarizer that numbers its entries, so that an entry says for which request it was."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.instructions: list[str | None] = []

    def __call__(self, messages: Any, prior: str | None, instruction: str | None, most: int) -> str:
        self.instructions.append(instruction)
        return f"- Entry-{next(self.numbers)}. {instruction or ''}"

    @property
    def written(self) -> int:
        return len(self.instructions)


def memory_with(summarizer: Any, window: int = WINDOW, **settings: Any) -> TokenMemory:
    settings.setdefault("background", False)
    return TokenMemory(window, summarizer=summarizer, **settings)


def entries(requests: list[list[BaseMessage]]) -> set[str]:
    """Return the summary entries that a model has read."""
    return {word for request in requests for word in texts(request).split() if "Entry-" in word}


def stateless(memory: TokenMemory, model: Talker | None = None, **keywords: Any) -> Any:
    """Return an agent without a checkpointer: its clients send everything again."""
    middleware = [TokenMemoryMiddleware(memory)]
    return create_agent(model or Talker(), middleware=middleware, **keywords)


def send_again(agent: Any, turns: int = 8, **names: str) -> None:
    """Send a growing conversation again and again, each time with new ids."""
    said: list[tuple[str, str]] = []
    for question in long_turns(turns, 300):
        said.append(("user", question))
        result = agent.invoke({"messages": said}, {"configurable": names})
        said.append(("assistant", result["messages"][-1].text))


# Summaries


async def none_of_anothers(way: Way, *names: tuple[str, str | None]) -> None:
    """Check that a summary is in no request of another with the same ids and words.

    It was finished and not yet taken.
    """
    writer, read = Numbered(), list[set[str]]()
    memory = memory_with(writer, background=True)
    for thread, user in names:
        model = Talker(answer=lambda request: AIMessage("Noted.", id=f"a-{request[-1].id}"))
        chat = way.chat(memory, thread=thread, user=user, model=model)
        for number, question in enumerate(long_turns(4, 600)):
            await chat.ask(HumanMessage(question, id=f"h{number}"))
            memory.close()
            if writer.written and not read:
                break
        read.append(entries(chat.requests))
    assert read[1]
    assert "Entry-1." not in read[1]


async def test_a_summary_of_one_user_is_in_no_request_of_another(way: Way):
    await none_of_anothers(way, ("t1", "ann"), ("t1", "bob"))


async def test_a_summary_of_a_thread_of_nobody_is_in_no_request_of_another_thread(way: Way):
    await none_of_anothers(way, ("t1", None), ("t2", None))


@pytest.mark.slow
@pytest.mark.parametrize("names", [{}, {"thread_id": "t1"}])
def test_a_client_that_names_no_user_is_summarized_once(names: dict[str, str]):
    writer = Numbered()
    send_again(stateless(memory_with(writer)), 14, **names)
    assert 1 < writer.written < 10
    before = writer.written
    send_again(stateless(memory_with(writer)), 14, **names)
    assert writer.written == 2 * before, "another memory has nothing of this one"


@pytest.mark.slow
def test_a_user_finds_a_summary_in_every_thread_and_another_user_in_none():
    writer = Numbered()
    agent = stateless(memory_with(writer))
    send_again(agent, user_id="ann", thread_id="t1")
    once = writer.written
    send_again(agent, user_id="ann", thread_id="t2")
    assert writer.written == once
    for names in ({"user_id": "bob", "thread_id": "t1"}, {"thread_id": "t1"}, {"thread_id": "t2"}):
        before = writer.written
        send_again(agent, **names)
        assert writer.written == before + once


@pytest.mark.parametrize("thread", ["t1", pytest.param("t2", marks=pytest.mark.slow)])
def test_a_summary_of_another_system_text_is_never_used_again(thread: str):
    """The model that summarizes may have read it: of another tenant, or another assistant."""
    writer = Talker(answer="## State\n- There are questions about parcels, all of them open.")
    memory = memory_with(ModelSummarizer(writer, reuse_prefix=True, window=16_000))
    for tenant, name in (("Alpha", "t1"), ("Beta", thread)):
        before = len(writer.requests)
        agent = stateless(memory, system_prompt=f"You are the clerk of {tenant}.")
        names = {"user_id": "ann"} if thread == "t2" else {"user_id": tenant}
        send_again(agent, thread_id=name, **names)
        asked = writer.requests[before:]
        assert asked
        assert all(f"the clerk of {tenant}." in texts(request) for request in asked)


def test_what_was_made_under_an_instruction_is_found_by_nobody():
    """Where the graph's state is lost, and by another thread of the same user."""
    writer = Numbered()
    memory = memory_with(writer)
    asked = "Keep the card 4929 of Ann."
    caller = Talker(answer=[calling("compact_conversation", instruction=asked), "Noted."])
    tools = [compact_conversation_tool()]
    agent = agent_of(TokenMemoryMiddleware(memory), model=caller, tools=tools)
    said = [HumanMessage(text) for text in long_turns(8, 150)]
    agent.invoke({"messages": said}, in_thread("t1", "ann"))
    assert asked in writer.instructions
    model = Talker()
    other = stateless(memory, model)
    for thread in ("t1", "t2"):
        given = {"messages": [*said, HumanMessage("Go on. " * 400)]}
        other.invoke(given, in_thread(thread, "ann"))
    assert entries(model.requests)
    assert "4929" not in texts([message for request in model.requests for message in request])


@pytest.mark.slow
async def test_erase_empties_what_is_kept_of_finished_summaries():
    writer, store = Numbered(), TranscriptStore("sqlite://")
    memory = memory_with(writer)
    agent = stateless(memory)
    send_again(agent, user_id="ann")
    once = writer.written
    memory.erase(store, user_id="ann")
    send_again(agent, user_id="ann")
    assert writer.written == 2 * once
    await memory.aerase(store, user_id="ann")
    send_again(agent, user_id="ann")
    assert writer.written == 3 * once
    store.close()


# Recall, notes, settings, pins

QUESTION = "What is the vault code of the harbour office?"


@pytest.mark.slow
@ways()
async def test_a_note_is_shown_in_its_session_its_project_or_to_its_user_only(way: Way):
    notes = InMemoryStore()
    shop = Notebook(notes, project="shop")
    options: dict[str, Any] = {"user_id": "ann"}
    shop.add("Vault code of the harbour office: S-1.", level="session", session_id="t1", **options)
    shop.add("Vault code of the harbour office, shop: P-2.", level="project", **options)
    shop.add("Vault code of the harbour office, always: G-3.", level="global", **options)
    first = way.chat(memory_with(Numbered(), 8_000, notes=shop), thread="t1", user="ann")
    yard = memory_with(Numbered(), 8_000, notes=Notebook(notes, project="yard"))
    for thread, user, memory, shown in (
        ("t1", "ann", first.memory, {"S-1", "P-2", "G-3"}),
        ("t2", "ann", first.memory, {"P-2", "G-3"}),
        ("t3", "ann", yard, {"G-3"}),
        ("t4", "bob", first.memory, set()),
    ):
        request = await first.also(thread=thread, user=user, memory=memory).last(QUESTION)
        assert {name for name in ("S-1", "P-2", "G-3") if name in texts(request)} == shown


@pytest.mark.slow
@ways()
async def test_settings_hold_for_their_session_or_their_user_only(way: Way):
    first = way.chat(memory_with(Numbered()), thread="t1", user="ann")
    small = TokenBudget(context_window=600)
    first.store.set_settings(session_id="t1", user_id="ann", budget=small)
    first.store.set_settings(user_id="bob", budget=small)
    long = long_turns(1, 800)[0]
    for thread, user, is_small in (
        ("t1", "ann", True),
        ("t2", "ann", False),
        ("t3", "bob", True),
        ("t4", None, False),
    ):
        request = await first.also(thread=thread, user=user).last(long)
        assert (first.memory.count(request).tokens <= 600) == is_small


@pytest.mark.slow
@ways()
async def test_a_pin_is_in_the_requests_of_its_conversation_only(way: Way):
    chats = [way.chat(memory_with(Numbered()), thread="t1", user="ann")]
    chats += [
        chats[0].also(thread=name, user=user) for name, user in (("t2", "ann"), ("t3", "bob"))
    ]
    for chat in chats:
        await chat.ask("Hello.")
    pin(chats[0], "Answer in rhymes.")
    shown = ["in rhymes" in texts(await chat.last("Go on.")) for chat in chats]
    assert shown == [True, False, False]


# Owners, and the channels of graphs


def with_nodes(schema: Any, memory: TokenMemory, model: Talker, **keywords: Any) -> Any:
    def call_model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(memory_input(state, memory))]}

    builder = StateGraph(schema)
    builder.add_node("model", call_model)
    builder.add_edge(START, memory_nodes(builder, memory, **keywords))
    return builder.compile(checkpointer=InMemorySaver())


GRAPHS: dict[str, Any] = {
    "MemoryMessagesState": lambda *given: with_nodes(MemoryMessagesState, *given),
    "split": lambda *given: with_nodes(MemoryMessagesState, *given, split=True),
    "MemoryAgentState": lambda *given: with_nodes(MemoryAgentState, *given),
    "MessagesState": lambda *given: with_nodes(MessagesState, *given),
    "middleware": lambda memory, model: agent_of(TokenMemoryMiddleware(memory), model=model),
}
STATE: Any = TokenMemory().compact([HumanMessage("Hello.")])
FORGED: dict[str, Any] = {
    "none": None,
    "empty": {},
    "no owner": STATE,
    "another owner": {**STATE, "owner": "bob"},
    "only an owner": {"owner": "bob"},
}


def forged_input(state: Any) -> dict[str, Any]:
    """Return an input that writes every channel that any of the graphs has."""
    return {
        "messages": "What is my code?",
        "memory": state,
        "token_memory": None if state is None else {"TokenMemoryMiddleware": state},
        "token_memory_orders": {"memory": "FORGED", "TokenMemoryMiddleware": "FORGED"},
        **pin_update("FORGED pin."),
        "llm_input_messages": [HumanMessage("FORGED view.")],
        "llm_input_stamp": "FORGED",
    }


ANN, BOB = in_thread("t1", "ann"), in_thread("t1", "bob")


@pytest.mark.slow
@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("kind", GRAPHS)
def test_no_input_changes_the_owner_of_a_thread(kind: str, forged: str):
    model = Talker()
    graph = GRAPHS[kind](memory_with(Numbered()), model)
    graph.invoke({"messages": "My code is 77."}, ANN)
    with pytest.raises(ScopeError, match="belongs to another user"):
        graph.invoke(forged_input(FORGED[forged]), BOB)
    with pytest.raises(ScopeError, match="belongs to another user"):
        graph.invoke({"messages": "What is my code?"}, BOB)
    assert len(model.requests) == 1
    graph.invoke({"messages": "I am still here."}, ANN)
    assert "My code is 77." in texts(model.requests[-1])


@pytest.mark.parametrize("kind", GRAPHS)
def test_no_input_writes_a_channel_of_the_memory(kind: str):
    """Neither a state with a summary, nor a pin, an order to compact, or a view."""
    writer, model = Numbered(), Talker()
    graph = GRAPHS[kind](memory_with(writer), model)
    said = [HumanMessage(text, id=f"h{n}") for n, text in enumerate(long_turns(10, 150))]
    told = memory_with(lambda *_: "- FORGED entry.")
    forged: Any = told.compact(said, force=True)
    assert "FORGED" in str(forged)
    given = {**forged_input({**forged, "owner": "bob"}), "messages": said}
    graph.invoke(given, ANN)
    assert "FORGED" not in texts(model.requests[-1])
    assert all("FORGED" not in (asked or "") for asked in writer.instructions)
    graph.invoke({"messages": "Go on."}, ANN)
    assert "FORGED" not in texts(model.requests[-1])
    values = graph.get_state(ANN).values
    assert "FORGED" not in str({k: v for k, v in values.items() if k != "messages"})


def test_a_list_of_sessions_is_that_of_one_user(store: TranscriptStore):
    for session, user in (("a1", "ann"), ("a2", "ann"), ("b1", "bob"), ("n1", None)):
        store.add(session, [HumanMessage("Hello.")], user_id=user)
    assert store.sessions(user_id="ann") == ["a1", "a2"]
    assert store.sessions(user_id="bob") == ["b1"]
    assert store.sessions() == ["a1", "a2", "b1", "n1"]


def test_a_session_is_read_written_and_erased_by_its_owner_only(store: TranscriptStore):
    store.add("s1", [HumanMessage("Hello.")], user_id="ann")
    thief = TokenMemoryChatHistory("s1", store=store, user_id="bob")
    for use in (
        lambda: store.messages("s1", user_id="bob"),
        lambda: store.add("s1", [HumanMessage("Mine.")], user_id="bob"),
        lambda: store.clear("s1", user_id="bob"),
        lambda: store.erase("s1", user_id="bob"),
        lambda: thief.messages,
        lambda: thief.pin("Mine."),
        lambda: thief.add_messages([HumanMessage("Mine.")]),
        *(thief.full_history, thief.clear, thief.usage, thief.compact, thief.pins),
    ):
        with pytest.raises(ScopeError):
            use()
    assert [message.text for message in store.messages("s1", user_id="ann")] == ["Hello."]
