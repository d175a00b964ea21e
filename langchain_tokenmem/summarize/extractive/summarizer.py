"""Extractive summarizer: deterministic, without a model, exact to the token."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.summarize.base import Summary, SummaryRequest
from langchain_tokenmem.summarize.extractive.fitting import best_text
from langchain_tokenmem.summarize.extractive.item_collector import ItemCollector


class ExtractiveSummarizer:
    """Writes a running summary of verbatim extracts, without a model and without I/O.

    It keeps, in this order, files and functions touched, errors with their fixes, dependencies,
    configuration changes, decisions and constraints, what is done, open items, names, numbers and
    dates. Greetings, raw logs and repeated reads are dropped. The text can be read back without
    loss, so facts of earlier summaries are carried forward as they stand; when the limit presses,
    sentences shrink to clauses and then to their literals, redundant ones first.

    The instruction of a request raises the worth of the items that share words with it.

    Example:
        ```python
        request = SummaryRequest(messages, max_tokens=400, count_text=len)
        ExtractiveSummarizer().summarize(request)
        ```
    """

    is_quick = True
    name = "extractive"
    prompt_version = "extractive-1"

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return True: nothing is paid for it."""
        return bool(messages)

    def summarize(self, request: SummaryRequest) -> Summary:
        """Return the new running summary.

        Args:
            request: What to fold in, and the limit in tokens.

        Returns:
            The summary; its text is never over `request.max_tokens` by `request.count_text`, and
            empty only where not even one character fits.
        """
        gathering = ItemCollector()
        if request.prior:
            gathering.add_prior(request.prior)
        gathering.add_messages(request.messages, first_order=len(gathering.items))
        human_turns = sum(message.type == "human" for message in request.messages)
        items = gathering.finish(request.instruction, human_turns)
        text = best_text(items, request.max_tokens, request.count_text)
        return Summary(text, self.name, self.prompt_version)

    async def asummarize(self, request: SummaryRequest) -> Summary:
        """Return the new running summary, made on another thread.

        Args:
            request: See `summarize`.
        """
        return await asyncio.to_thread(self.summarize, request)
