"""LangGraph's multi-agent packages with a memory: a swarm, and a supervisor with its agents."""

import warnings
from typing import Any, NotRequired

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import MemoryNode, TokenMemory, TokenMemoryMiddleware
from langchain_tokenmem.graphs import MemoryAgentState
from langchain_tokenmem.types import MemoryState
from tests.contract.chats import Talker, calling, in_thread
from tests.fakes import memory_of
from tests.providers import problems

TURNS = 40
WARNING = "The memory's state was not kept"


class KeptState(MemoryAgentState):
    """The supervisor is a node of its graph: its state is kept where the graph's schema has it."""

    memory: NotRequired[MemoryState]


class Speaker(Talker):
    """A model that takes tools and knows nothing of them."""

    def bind_tools(self, *_tools: Any, **_keywords: Any) -> Any:
        return self


class Talk:
    """What the models of several agents are asked; every fifth turn one hands over."""

    def __init__(self) -> None:
        self.turn = 0
        self.requests: list[list[BaseMessage]] = []

    def model(self, hands_over: str | None = None) -> Speaker:
        def answer(messages: list[BaseMessage]) -> Any:
            self.requests.append(messages)
            if hands_over and messages[-1].type == "human" and self.turn % 5 == 4:
                return calling(f"transfer_to_{hands_over}", f"c{self.turn}")
            return "ok " * 60

        return Speaker(answer=answer)

    def play(self, graph: Any) -> list[BaseMessage]:
        result: dict[str, Any] = {}
        for self.turn in range(TURNS):
            question = HumanMessage(f"Question {self.turn}? " * 30)
            result = graph.invoke({"messages": [question]}, in_thread())
        return result["messages"]

    def check(self, memory: TokenMemory) -> None:
        for request in self.requests:
            assert problems(request) == []
            assert memory.count(request).tokens <= memory.budget.limit


def summarized_tokens(memory: TokenMemory) -> int:
    """Return the tokens of all messages that the summarizer was given."""
    return sum(memory.count(asked.messages).tokens for asked in memory.summarizer.requests)


def swarm_of(talk: Talk, memory: TokenMemory, checkpointer: Any) -> Any:
    swarm = pytest.importorskip("langgraph_swarm")
    agents = [
        create_agent(
            talk.model(other),
            [swarm.create_handoff_tool(agent_name=other)],
            middleware=[TokenMemoryMiddleware(memory)],
            name=name,
            checkpointer=checkpointer,
        )
        for name, other in (("alice", "bob"), ("bob", "alice"))
    ]
    return swarm.create_swarm(agents, default_active_agent="alice").compile(
        checkpointer=InMemorySaver()
    )


@pytest.mark.parametrize(
    ("keeps", "times"), [(None, 1), (True, 2)], ids=["no checkpointer", "each has its own state"]
)
def test_a_swarm_is_not_summarized_again_and_again(keeps, times, caplog):
    talk, memory = Talk(), memory_of(4_000)
    said = talk.play(swarm_of(talk, memory, keeps))
    talk.check(memory)
    assert summarized_tokens(memory) <= times * memory.count(said).tokens
    assert caplog.text.count(WARNING) == (0 if keeps else 1)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_supervisor_and_its_agents_are_not_summarized_again_and_again(keeps, caplog):
    supervisor = pytest.importorskip("langgraph_supervisor")
    talk, memory, helpers = Talk(), memory_of(4_000), memory_of(4_000)
    helper = create_agent(
        talk.model(),
        middleware=[TokenMemoryMiddleware(helpers)],
        name="helper",
        checkpointer=keeps or None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is made with LangGraph's own agent
        builder = supervisor.create_supervisor(
            [helper],
            model=talk.model("helper"),
            pre_model_hook=MemoryNode(memory),
            output_mode="last_message",
            state_schema=KeptState if keeps else None,
        )
    said = talk.play(builder.compile(checkpointer=InMemorySaver()))
    talk.check(memory)
    assert 0 < summarized_tokens(memory) <= memory.count(said).tokens
    assert summarized_tokens(helpers) <= 2 * helpers.count(said).tokens
    assert caplog.text.count(WARNING) == (0 if keeps else 2)  # the supervisor's, and the helper's
