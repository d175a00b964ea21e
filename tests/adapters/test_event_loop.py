"""Async integrations never block the event loop, and pass LangGraph's strict mode."""

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import (
    Recall,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    with_token_memory,
)
from tests.adapters.integrations import agent_of, call, rounds, session, thread, turns
from tests.fakes import memory_of, printed_by
from tests.summarize.models import Scripted


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(tmp_path / "memory.db") as store:
        yield store


async def test_a_chain_and_a_history(store):
    memory = memory_of()
    chain = with_token_memory(Scripted(answer="Yes."), memory, store)
    store.add("s", turns(12))
    with blockbuster_ctx():
        for number in range(6):
            await chain.ainvoke(f"Question {number}? " * 40, session())
        history = TokenMemoryChatHistory("s", memory=memory, store=store)
        assert len(await history.afull_history()) == 36
        assert (await history.ausage()).input_tokens <= memory.budget.limit
        await history.acompact()
    assert store.state("s").state["summary"]


@pytest.mark.slow
async def test_an_agent_its_tools_its_summaries_and_a_refusal_of_its_model():
    writer = Scripted(answer="## Goal\nParcel 4711 goes to Bonn, with a receipt by Friday.")
    memory = memory_of(4_000, summarizer=writer)
    script = [
        *rounds(14)[:-1],
        call(14, "compact_conversation", instruction="Keep the parcel."),
        call(15, "read_message", id="h"),
        *rounds(3, 16)[:-1],
        ContextOverflowError("too long"),
        AIMessage("Done."),
    ]
    _, agent = agent_of(script, TokenMemoryMiddleware(memory, agent_tools=True))
    with blockbuster_ctx():
        result = await agent.ainvoke({"messages": [HumanMessage("Go.", id="h")]}, thread())
        await memory.aclose()
    assert result["messages"][-1].content == "Done."
    assert "Keep the parcel." in str(writer.requests)


@pytest.mark.slow
@pytest.mark.parametrize("kept_by", ["the saver", "the integration", "the recall"])
async def test_a_graph_and_the_settings_of_its_thread(door, store, kept_by):
    store.set_settings(user_id="ann", budget=2_000)
    saver = TokenMemorySaver(store) if kept_by == "the saver" else InMemorySaver()
    memory = memory_of(4_000, recall=Recall(store) if kept_by == "the recall" else None)
    model, graph = door(memory, saver, **({"store": store} if "integration" in kept_by else {}))
    with blockbuster_ctx():
        for said in (turns(20), turns(5, 20)):
            await graph.ainvoke({"messages": said}, thread(user_id="ann"))
    assert "conversation_summary" in str(model.requests[-1][0].content)


FRESH_PROCESS = """
import asyncio, logging
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_tokenmem import TokenMemory, TokenMemoryMiddleware, TokenMemorySaver, TranscriptStore
from langgraph.checkpoint.serde import _msgpack
assert _msgpack.STRICT_MSGPACK_ENABLED
logged = []
handler = logging.Handler(logging.WARNING)
handler.emit = lambda record: logged.append(record.getMessage())
logging.getLogger().addHandler(handler)

async def main():
    model = FakeListChatModel(responses=["hello " * 200])
    middleware = TokenMemoryMiddleware(TokenMemory(1_000, background=False))
    config = {"configurable": {"thread_id": "t"}}
    with TranscriptStore("sqlite://") as store:
        agent = create_agent(model, middleware=[middleware], checkpointer=TokenMemorySaver(store))
        with blockbuster_ctx():
            for _ in range(8):
                await agent.ainvoke({"messages": "hi"}, config)
        state = agent.get_state(config).values
    covered = state["token_memory"]["TokenMemoryMiddleware"]["summary"]["covered"]
    print(len(state["messages"]), covered > 3)

asyncio.run(main())
print(logged)
"""


@pytest.mark.slow
def test_the_first_calls_of_a_process_block_no_loop_and_pass_strict_msgpack_without_a_warning():
    """Where the vocabulary is loaded, and every checkpoint is read under strict rules."""
    printed = printed_by(FRESH_PROCESS, "-W", "error", LANGGRAPH_STRICT_MSGPACK="true")
    assert printed.strip().split("\n") == ["16 True", "[]"]
