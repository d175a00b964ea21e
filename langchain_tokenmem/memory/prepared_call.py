"""A conversation split into the parts of one request, ready for a view or a compaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.memory_block import recalled_ids
from langchain_tokenmem.core.view import View, build_view
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.tokens.base import TokenCounter


@dataclass(frozen=True)
class PreparedCall:
    """A conversation split into the parts of one request, with what it takes to decide about it.

    Attributes:
        context: The parts of the request under the state.
        budget: The budget of the call, for counts as exact as these.
        state: What was decided so far.
        counter: Counts tokens, corrected by what the provider has reported.
        ratio: The correction; None where counts are exact.
        mode: The mode that is on; None for none.
        provider_tokens: Tokens of the request as its provider counts them; None where it was not
            asked.
        reported: Tokens of the newest request that a reply has reported; 0 before enough have.
    """

    context: ContextParts
    budget: TokenBudget
    state: MemoryState
    counter: TokenCounter
    ratio: float | None = None
    mode: ModeProfile | None = None
    provider_tokens: int | None = None
    reported: int = 0

    def view(self) -> View:
        """Return the request for the call."""
        view = build_view(self.context, self.budget, exact=True)
        tokens = view.usage.input_tokens
        is_counted = self.counter.method == "exact" or tokens == self.provider_tokens
        usage = replace(view.usage, is_estimate=not is_counted)
        return replace(view, usage=usage)

    def is_prepared_for(self, state: MemoryState) -> bool:
        """Return whether the request under a state is this one.

        It is where only turn memories are new: those of the context were read just now.
        """
        before: Mapping[str, object] = {**self.state}
        after: Mapping[str, object] = {**state}
        keys = (before.keys() | after.keys()) - {"turns"}
        return all(before.get(key) is after.get(key) for key in keys)

    def shown_ids(self) -> set[str]:
        """Return the ids of the messages that the request shows, recalled ones too."""
        sent = {message.id or "" for message in self.view().messages}
        return sent | recalled_ids(self.state, sent)
