"""A deep agent that uses this memory instead of its own summarizer. Runs offline.

Needs `pip install deepagents`; without it, says so. Run: python examples/deep_agent.py
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import TokenMemory, TokenMemoryMiddleware

TURNS = 40


class ScriptedModel(FakeListChatModel):
    """Stands for a chat model."""

    responses: list[str] = ["Parcel noted, the courier comes on Friday morning. " * 30]  # noqa: RUF012  # a field

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Take the tools; the script needs none."""
        del tools, kwargs
        return self


def main() -> None:
    """Talk for a while, and print what the memory hides from the model."""
    if find_spec("deepagents") is None:
        print("deepagents is not installed: pip install deepagents")
        return
    from deepagents import create_deep_agent  # noqa: PLC0415  # not everyone has it

    memory = TokenMemoryMiddleware(TokenMemory(16_000), name="SummarizationMiddleware")
    agent: Any = create_deep_agent(
        ScriptedModel(), middleware=[memory], checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "parcels"}}
    for turn in range(TURNS):
        agent.invoke({"messages": [HumanMessage(f"Where is parcel {turn}?")]}, config)
    kept = len(agent.get_state(config).values["messages"])
    explained = memory.explain(agent, config)
    print(explained)
    print(f"{kept} messages kept, {explained.tokens:,} tokens sent of {explained.limit:,}")


if __name__ == "__main__":
    main()
