"""Requests to a summarizing model: prompts that fit its window."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.core.profiles import COMMON, LegalityProfile
from langchain_tokenmem.core.provider_format import fit_list
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.prompts import (
    SummaryPrompts,
    escape_fences,
    fill_template,
    render_message,
)
from langchain_tokenmem.summarize.reused_requests import (
    complete_groups,
    not_whole_in,
    tokens_of,
    tool_tokens,
)

USERS_LANGUAGE = "the language of the user's messages"

MOST_WORDS = 400

_WORDS_PER_TOKEN = 0.6

_FRAME_TOKENS = 64
"""Tokens of roles and separators around the two messages of a request."""

_WINDOW_MARGIN = 0.05
"""Part of the summarizer's window that is left free: its tokens are counted with the memory's
counter, which may not be its own."""

_BEGINNING = 80
"""Characters of a message by which the instruction behind a main request names it."""

_NO_PRIOR = "none"


@dataclass(frozen=True)
class PromptBuilder:
    """Writes the requests of a summarizer.

    Attributes:
        prompts: Their words.
        language: Language of the notes.
        window: Context window of the model, in tokens.
        profile: What the model's provider asks of a list of messages.
    """

    prompts: SummaryPrompts
    language: str
    window: int
    profile: LegalityProfile = COMMON

    def prompt(
        self, request: SummaryRequest, step: str, transcript: str, target: int
    ) -> list[BaseMessage]:
        """Return the messages of one call.

        Args:
            request: The job.
            step: `update`, `leaf`, `part`, `merge`, `condense` or `reuse`.
            transcript: What is to be read; `reuse` reads the main request.
            target: Tokens that the notes should have.
        """
        if step == "reuse":
            return self.reused(request, target)
        reads_notes = step in {"part", "merge", "condense"}
        template = self.prompts.condense if reads_notes else self.prompts.update
        order = fill_template(template, **_values(request, target), transcript=transcript)
        return [SystemMessage(self._rules(request, target)), HumanMessage(order)]

    def reused(self, request: SummaryRequest, target: int) -> list[BaseMessage]:
        """Return the main request up to its last complete group, with one instruction behind it.

        Messages that do not stand whole in it stand verbatim in the instruction.
        """
        sent = complete_groups(request.sent)
        missing = "\n\n".join(map(render_message, not_whole_in(sent, request)))
        order = fill_template(
            self.prompts.reuse,
            **_values(request, target),
            rules=self._rules(request, target),
            first=_beginning(request.messages[0]),
            last=_beginning(request.messages[-1]),
            verbatim=fill_template(self.prompts.verbatim, transcript=missing) if missing else "",
        )
        return fit_list([*sent, HumanMessage(order)], self.profile)

    def room(self, request: SummaryRequest) -> int:
        """Return the tokens that a transcript may have in one request."""
        steps = ("condense",) if request.condenses else ("update", "condense")
        prompts = [self.prompt(request, step, "", request.max_tokens) for step in steps]
        fixed = max(sum(request.count_text(text_of(m)) for m in empty) for empty in prompts)
        free = int(self.window * (1 - _WINDOW_MARGIN)) - request.max_tokens
        return free - fixed - _FRAME_TOKENS

    def whole(self, request: SummaryRequest) -> list[BaseMessage]:
        """Return the plain request, as if it had no parts."""
        transcript = "\n\n".join(map(render_message, request.messages))
        return self.prompt(request, "update", transcript, request.max_tokens)

    def within_window(self, request: SummaryRequest, most_tokens: int) -> SummaryRequest:
        """Return the request with earlier notes, and room for new ones, of so many tokens at most.

        Of longer notes the newest lines stay: they are context, and nothing of them is told again.
        """
        request = replace(request, max_tokens=min(request.max_tokens, most_tokens))
        if not request.prior or request.count_text(request.prior) <= most_tokens:
            return request
        lines = request.prior.split("\n")
        while lines and request.count_text("\n".join(lines)) > most_tokens:
            del lines[: max(1, len(lines) // 10)]
        return replace(request, prior="\n".join(lines) or None)

    def fits(self, request: SummaryRequest, messages: Sequence[BaseMessage]) -> bool:
        """Return whether messages, the main call's tools, and the answer fit the model's window."""
        tokens = tokens_of(messages, request.count_text) + tool_tokens(request)
        most = min(request.max_tokens, self.window)
        return tokens + most <= self.window * (1 - _WINDOW_MARGIN)

    def corrected(
        self, messages: Sequence[BaseMessage], answer: str, unknown: Sequence[str]
    ) -> list[BaseMessage]:
        """Return a request with its answer behind it, and an order that names unknown literals."""
        named = escape_fences(", ".join(json.dumps(one, ensure_ascii=False) for one in unknown))
        order = fill_template(self.prompts.correct, unknown=named)
        return [*messages, AIMessage(answer), HumanMessage(order)]

    def _rules(self, request: SummaryRequest, target: int) -> str:
        rules = self.prompts.rules(request.sections)
        return fill_template(rules, language=self.language, words=_words(target))


def _values(request: SummaryRequest, target: int) -> dict[str, str | int]:
    asked = f"For this time, the application asks: {request.instruction}\n"
    return {
        "prior": escape_fences(request.prior or _NO_PRIOR),
        "instruction": asked if request.instruction else "",
        "words": _words(target),
    }


def _words(target: int) -> int:
    return max(10, min(MOST_WORDS, int(target * _WORDS_PER_TOKEN)))


def _beginning(message: BaseMessage) -> str:
    """Return how a message begins, in quotes: a place in a request that is there already."""
    return json.dumps(render_message(message)[:_BEGINNING], ensure_ascii=False)
