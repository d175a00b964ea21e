"""A chat model whose class counts for itself, as one that asks its provider does."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from pydantic import Field


class CountedModel(FakeListChatModel):
    """Counts by a function; remembers what it was asked, how many at once, and in which threads."""

    responses: list[str] = Field(default_factory=lambda: ["Yes."])
    model: str = "claude-test"
    answer: Any = 50
    seconds: float = 0.0
    asked: list[tuple[list[BaseMessage], Any]] = Field(default_factory=list)
    threads: list[str] = Field(default_factory=list)
    running: list[int] = Field(default_factory=lambda: [0, 0])
    profile: Any = None

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        self.asked.append((list(messages), tools))
        self.threads.append(threading.current_thread().name)
        self.running[0] += 1
        self.running[1] = max(self.running)
        try:
            time.sleep(self.seconds)
            found: Any = self.answer
            if isinstance(found, Exception):
                raise found
            return found(messages, tools) if isinstance(found, Callable) else found
        finally:
            self.running[0] -= 1

    @property
    def most_at_once(self) -> int:
        return self.running[1]
