"""A chat history for code that takes LangChain's `BaseChatMessageHistory`. Runs offline.

Your loop stays as it is; the history returns what fits, and keeps everything.
Run: python examples/history.py
"""

from __future__ import annotations

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TokenMemory, TokenMemoryChatHistory, TranscriptStore

TURNS = 30


def ask(history: BaseChatMessageHistory, model: FakeListChatModel, question: str) -> None:
    """Take a turn as an application does that knows nothing of this package."""
    history.add_messages([HumanMessage(question)])
    history.add_messages([model.invoke(history.messages)])


def main() -> None:
    """Talk for a while, and print what the model is sent in the end."""
    model = FakeListChatModel(responses=["That is noted, and it will be looked at soon. " * 6])
    memory = TokenMemory(2_000)
    with TranscriptStore("sqlite://") as store:
        history = TokenMemoryChatHistory(
            "monday", memory=memory, store=store, user_id="anna", overhead_tokens=100
        )
        for turn in range(TURNS):
            ask(history, model, f"Please note order {4_000 + turn}. " * 8)
        usage = history.usage()
        print(f"{len(history.full_history())} messages kept, {len(history.messages)} sent")
        print(f"{usage.input_tokens:,} tokens of {usage.max_tokens:,} ({usage.percent_used:.0f} %)")
        print("the first message that is sent ends with the summary:")
        print(f"...{history.messages[0].text[-400:]}")


if __name__ == "__main__":
    main()
