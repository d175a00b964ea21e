"""Requests to a summarizing model: prompts that fit its window."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.prompts import SummaryPrompts, fill_template
from langchain_tokenmem.summarize.rendering import escape_fences, render_message

USERS_LANGUAGE = "the language of the user's messages"

MOST_WORDS = 400

_WORDS_PER_TOKEN = 0.6

_FRAME_TOKENS = 64
"""Tokens of roles and separators around the two messages of a request."""

_WINDOW_MARGIN = 0.05
"""Part of the summarizer's window that is left free: its tokens are counted with the memory's
counter, which may not be its own."""

_NO_PRIOR = "none"


@dataclass(frozen=True)
class PromptBuilder:
    """Writes the requests of a summarizer.

    Attributes:
        prompts: Their words.
        language: Language of the notes.
        window: Context window of the model, in tokens.
    """

    prompts: SummaryPrompts
    language: str
    window: int

    def prompt(
        self, request: SummaryRequest, step: str, transcript: str, target: int
    ) -> list[BaseMessage]:
        """Return the messages of one call.

        Args:
            request: The job.
            step: `leaf`, `part`, `update`, `merge` or `reuse`.
            transcript: What is to be read.
            target: Tokens that the notes should have.
        """
        words = max(10, min(MOST_WORDS, int(target * _WORDS_PER_TOKEN)))
        rules = fill_template(self.prompts.system, language=self.language, words=words)
        asked = f"For this time, the application asks: {request.instruction}\n"
        values: dict[str, str | int] = {
            "prior": escape_fences(request.prior or _NO_PRIOR),
            "transcript": transcript,
            "instruction": asked if request.instruction else "",
            "words": words,
        }
        if step == "reuse":
            last = request.messages[-1].id
            after = [message.id for message in request.sent]
            tail = len(after) - 1 - after.index(last) if last in after else 0
            order = fill_template(self.prompts.reuse, **values, rules=rules, tail=tail)
            return [*request.sent, HumanMessage(order)]
        template = self.prompts.merge if step in {"merge", "part"} else self.prompts.update
        return [SystemMessage(rules), HumanMessage(fill_template(template, **values))]

    def room(self, request: SummaryRequest) -> int:
        """Return the tokens that a transcript may have in one request."""
        empty = self.prompt(request, "update", "", request.max_tokens)
        fixed = sum(request.count_text(text_of(message)) for message in empty)
        free = int(self.window * (1 - _WINDOW_MARGIN)) - request.max_tokens
        return free - fixed - _FRAME_TOKENS

    def fits_reused(self, request: SummaryRequest) -> bool:
        """Return whether the main request with one instruction behind it fits the window."""
        if not request.sent:
            return False
        sent = [*request.sent, *self.prompt(request, "reuse", "", request.max_tokens)[-1:]]
        tokens = sum(_FRAME_TOKENS // 8 + request.count_text(render_message(m)) for m in sent)
        return tokens + request.max_tokens <= self.window * (1 - _WINDOW_MARGIN)

    def key(self, request: SummaryRequest, author: str) -> str:
        """Return what names a summary: everything that goes into it, and who writes it."""
        parts = [author, self.language, request.prior or "", request.instruction or ""]
        parts += map(render_message, request.messages)
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=24).hexdigest()
