"""A chat model whose class counts for itself, as one that asks its provider does."""

import threading
import time
from typing import Any

from langchain_core.language_models import FakeListChatModel
from pydantic import Field

TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Read a file.", "parameters": {}},
}


class CountedModel(FakeListChatModel):
    """Counts by a function; remembers what it was asked, how many at once, and in which threads."""

    responses: list[str] = Field(default_factory=lambda: ["Yes."])
    model: str = "claude-test"
    answer: Any = 50
    seconds: float = 0.0
    asked: list[Any] = Field(default_factory=list)
    threads: list[str] = Field(default_factory=list)
    running: list[int] = Field(default_factory=lambda: [0, 0])  # now, and at most
    profile: Any = None

    def get_num_tokens_from_messages(self, messages, tools=None):
        self.asked.append((list(messages), tools))
        self.threads.append(threading.current_thread().name)
        self.running[0] += 1
        self.running[1] = max(self.running)
        try:
            time.sleep(self.seconds)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer(messages, tools) if callable(self.answer) else self.answer
        finally:
            self.running[0] -= 1
