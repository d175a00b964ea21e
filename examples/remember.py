"""Two sessions of one user; what the first one remembers, the second one knows.

Runs offline, with a scripted model. Run: python examples/remember.py
"""

from __future__ import annotations

from typing import Any

from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import (
    Notebook,
    TokenBudget,
    TokenMemory,
    TranscriptStore,
    memory_tools,
    with_token_memory,
)


def main() -> None:
    """Tell something in one session, and ask for it in another."""
    notebook = Notebook(InMemoryStore(), project="shop")
    memory = TokenMemory(TokenBudget(context_window=8_000), notes=notebook)

    # In the first session the agent calls a tool, as a model does when it is told to remember.
    (memorize,) = memory_tools(notebook, include={"memorize"}, user_id="anna", session_id="monday")
    wish = "Anna wants answers in French, without salutations."
    print(memorize.invoke({"content": wish, "kind": "preference"}))

    # The second one has another id and an empty transcript.
    seen: list[str] = []

    def answer(request: Any) -> str:
        seen.append(str(request.to_messages()[-1].content))
        return "D'accord."

    prompt = ChatPromptTemplate.from_messages(
        [("system", "You sell tea."), MessagesPlaceholder("history"), ("human", "{input}")]
    )
    with TranscriptStore("sqlite://") as store:
        chain = with_token_memory(
            prompt | RunnableLambda(answer),
            memory,
            store,
            input_messages_key="input",
            history_messages_key="history",
        )
        config: Any = {"configurable": {"session_id": "friday", "user_id": "anna"}}
        for question in ("In which language are answers?", "What does green tea cost?"):
            chain.invoke({"input": question}, config)
    print(seen[0])
    print(f"The second session knows: {wish in seen[0]}; asked of tea: {wish in seen[1]}")


if __name__ == "__main__":
    main()
