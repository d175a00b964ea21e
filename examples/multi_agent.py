"""Two agents that share a store: what one is told, the other one finds. Runs offline.

Each has its own thread; recall searches all threads of the user.
Run: python examples/multi_agent.py
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage, HumanMessage

from langchain_tokenmem import (
    Recall,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
)


class ScriptedModel(FakeListChatModel):
    """Stands for a chat model, and keeps the requests that it gets."""

    requests: list[list[BaseMessage]] = []  # noqa: RUF012  # a field: each model has its own

    def _call(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> str:
        self.requests.append(messages)
        return super()._call(messages, *args, **kwargs)


def agent_of(store: TranscriptStore, role: str, model: ScriptedModel) -> Any:
    """Return an agent whose recall reads every thread of its user."""
    memory = TokenMemory(8_000, recall=Recall(store, scope="user"))
    return create_agent(
        model,
        system_prompt=role,
        middleware=[TokenMemoryMiddleware(memory)],
        checkpointer=TokenMemorySaver(store),
    )


def main() -> None:
    """Tell the seller something, and ask the support about it."""
    seller_model = ScriptedModel(responses=["Sold: one copper lamp."])
    support_model = ScriptedModel(responses=["It can be exchanged until May."])
    with TranscriptStore("sqlite://", shared=True) as store:
        seller = agent_of(store, "You sell lamps.", seller_model)
        support = agent_of(store, "You help with broken lamps.", support_model)

        def ask(agent: Any, thread: str, user: str, question: str) -> None:
            config = {"configurable": {"thread_id": thread, "user_id": user}}
            agent.invoke({"messages": [HumanMessage(question)]}, config)

        ask(seller, "sales-1", "anna", "I take the copper lamp, order 4711, to Lund.")
        ask(support, "help-1", "anna", "My copper lamp is broken. Which order was it?")
        ask(support, "help-2", "bob", "My copper lamp is broken. Which order was it?")
        print(store.sessions())
    to_anna, to_bob = (str(request[-1].content) for request in support_model.requests)
    print(to_anna)
    print(f"support knows Anna's order: {'4711' in to_anna}; Bob sees it: {'4711' in to_bob}")


if __name__ == "__main__":
    main()
