"""An agent whose conversation never outgrows its window. Runs offline, with a scripted model.

Run: python examples/agent.py
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryMiddleware

ROUNDS = 24


@tool
def read_log(day: int) -> str:
    """Read the log of a day."""
    return "\n".join(f"day {day}, line {line}: all is well" for line in range(60))


class ScriptedModel(GenericFakeChatModel):
    """Stands for a chat model: reads one log after another, then answers."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Take the tools; the script knows them."""
        del tools, kwargs
        return self


def script() -> list[AIMessage]:
    """Return what the model says."""
    calls = [
        AIMessage(
            f"I read day {day}.",
            tool_calls=[{"name": "read_log", "args": {"day": day}, "id": f"call-{day}"}],
        )
        for day in range(ROUNDS)
    ]
    return [*calls, AIMessage("All days are well.")]


def main() -> None:
    """Run the agent and print what the memory did."""
    memory = TokenMemory(TokenBudget(context_window=4_000))
    agent = create_agent(
        ScriptedModel(messages=iter(script())),
        [read_log],
        system_prompt="You look through logs.",
        middleware=[TokenMemoryMiddleware(memory, agent_tools=True)],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "logs"}, "recursion_limit": 100}
    question = HumanMessage("Is all well?")
    for event in agent.stream({"messages": [question]}, config, stream_mode="custom"):
        known = {"covered", "reason", "percent"}
        print(event["event"], {k: v for k, v in event.items() if k in known})
    held = agent.get_state(config).values
    state = held["token_memory"]["TokenMemoryMiddleware"]
    explained = memory.explain(held["messages"], state, system="You look through logs.")
    print(held["messages"][-1].content)
    print(f"{len(held['messages'])} messages in the state, {len(explained.messages)} in the view")
    print(f"{explained.tokens:,} tokens of {explained.limit:,}")


if __name__ == "__main__":
    main()
