"""Prompts that the memory does not see: its requests hold one system message, the prompt's own."""

from __future__ import annotations

import warnings

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda

from langchain_tokenmem import (
    MemoryNode,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    with_token_memory,
)
from tests.fakes import CharCounter, ListSummarizer
from tests.providers import CHECKS, StrictModel

FENCE = "<conversation_summary "
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{input}")]
)


def memory_of(**options):
    return TokenMemory(
        TokenBudget(context_window=1_500),
        counter=CharCounter(),
        summarizer=ListSummarizer(),
        **options,
    )


def talk(turns):
    return [
        message
        for n in range(turns)
        for message in (
            HumanMessage(f"question {n} " * 10, id=f"h{n}"),
            AIMessage(f"answer {n} " * 10, id=f"a{n}"),
        )
    ]


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as opened:
        opened.add("s1", talk(30))
        yield opened


def systems(request):
    return [m for m in request if m.type == "system"]


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(CHECKS))
def test_a_runnable_with_message_history_sends_one_system_message(store, family):
    from langchain_core.runnables.history import RunnableWithMessageHistory

    model, memory = StrictModel(family=family), memory_of(legality=family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chain = RunnableWithMessageHistory(
            PROMPT | model,
            lambda session_id: TokenMemoryChatHistory(session_id, memory=memory, store=store),
            input_messages_key="input",
            history_messages_key="history",
        )
        chain.invoke({"input": "And now?"}, {"configurable": {"session_id": "s1"}})
    [request] = model.seen
    assert [m.content for m in systems(request)] == ["Be brief."]
    assert FENCE in request[1].text
    stored = store.messages("s1")
    assert FENCE not in str(stored)
    assert len(stored) == 62


@pytest.mark.parametrize("prompt", ["Be brief.", None])
def test_create_react_agent_with_a_prompt_sends_one_system_message(prompt):
    prebuilt = pytest.importorskip("langgraph.prebuilt")
    from langchain_tokenmem.graphs import MemoryAgentState

    model = StrictModel(family="gemini")
    memory = memory_of().for_model(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent = prebuilt.create_react_agent(
            model,
            [],
            prompt=prompt,
            pre_model_hook=MemoryNode(memory),
            state_schema=MemoryAgentState,
        )
    agent.invoke({"messages": [*talk(30), HumanMessage("And now?", id="n")]})
    [request] = model.seen
    assert [m.content for m in systems(request)] == ([prompt] if prompt else [])
    assert FENCE in str(next(m.content for m in request if m.type == "human"))


def test_a_chain_with_an_agent_inside_sends_one_system_message(store):
    model = StrictModel(family="gemini")
    agent = RunnableLambda(lambda messages: model.invoke([("system", "Be brief."), *messages]))
    chain = with_token_memory(agent, memory_of(legality="gemini"), store)
    chain.invoke("And now?", {"configurable": {"session_id": "s1"}})
    [request] = model.seen
    assert len(systems(request)) == 1
    assert FENCE in request[1].text


def test_a_memory_may_say_itself_where_the_summary_stands(store):
    memory = memory_of(summary_role="system")
    shown = TokenMemoryChatHistory("s1", memory=memory, store=store).messages
    assert shown[0].type == "system"
    assert FENCE in shown[0].content


@pytest.mark.slow
def test_an_agent_executors_scratchpad_is_room_that_overhead_tokens_keeps(store):
    """The executor adds its calls and results behind the history, after the view was made."""
    agents = pytest.importorskip("langchain_classic.agents")
    from langchain_core.tools import tool

    @tool
    def read(path: str) -> str:
        """Read a file."""
        return "line " * 400

    prompt = ChatPromptTemplate.from_messages(
        [*PROMPT.messages, MessagesPlaceholder("agent_scratchpad")]
    )
    call = AIMessage("", tool_calls=[{"name": "read", "args": {"path": "x"}, "id": "c1"}])
    tokens = {}
    for overhead in (0, 700):
        model = StrictModel(family="openai", script=[call, AIMessage("Done.")])
        store.add(f"of {overhead}", talk(30))
        history = TokenMemoryChatHistory(
            f"of {overhead}", memory=memory_of(), store=store, overhead_tokens=overhead
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agent = agents.create_tool_calling_agent(model, [read], prompt)
            executor = agents.AgentExecutor(agent=agent, tools=[read])
            executor.invoke({"input": "Read x.", "history": history.messages})
        tokens[overhead] = max(memory_of().count(request).tokens for request in model.seen)
    assert tokens[700] <= 1_500
    assert tokens[0] > tokens[700]
