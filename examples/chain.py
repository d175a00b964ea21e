"""A chain with a memory over a transcript store. Runs offline, with a scripted model.

Run: python examples/chain.py
"""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from langchain_tokenmem import TokenBudget, TokenMemory, TranscriptStore, with_token_memory

TURNS = 30


def main() -> None:
    """Talk for a while through a chain."""
    prompt = ChatPromptTemplate.from_messages(
        [("system", "You take orders."), MessagesPlaceholder("history"), ("human", "{input}")]
    )
    model = FakeListChatModel(responses=["That is noted, and it will be looked at soon. " * 6])
    memory = TokenMemory(TokenBudget(context_window=2_000))
    sizes: list[int] = []

    def counted(request: Any) -> Any:
        sizes.append(memory.count(request.to_messages()).tokens)
        return request

    with TranscriptStore("sqlite://") as store:
        chain = with_token_memory(
            prompt | counted | model,
            memory,
            store,
            input_messages_key="input",
            history_messages_key="history",
        )
        config: Any = {"configurable": {"session_id": "s1", "user_id": "anna"}}
        for turn in range(TURNS):
            chain.invoke({"input": f"Please note order {4_000 + turn}. " * 8}, config)
        print(f"{store.count('s1', user_id='anna')} messages in the transcript")
    print(f"largest request: {max(sizes):,} tokens, limit {memory.budget.limit:,}")


if __name__ == "__main__":
    main()
