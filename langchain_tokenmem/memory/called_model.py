"""The model that is called: its counter, its window and its provider's rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.chat_models import (
    ModelLimits,
    checked_model,
    model_name,
    models_of,
    told_limits,
    unwrap_model,
    window_of,
)
from langchain_tokenmem.core.profiles import LegalityProfile, profile_of_model
from langchain_tokenmem.tokens.base import TokenCounter
from langchain_tokenmem.tokens.resolve import counter_for


@dataclass(frozen=True)
class CalledModel:
    """The model that is called, as far as a memory needs to know it.

    Attributes:
        name: Its name, or its class where it has none.
        counter: Counts its tokens.
        window: Its window, in tokens; the smallest of those it falls back to; None if unknown.
        most_output: Its longest answer, in tokens; None if unknown.
        legality: What its provider asks of a list of messages.
        mixes: Whether a call may reach models of several vocabularies.
        model: The model itself: a summarizer that is the same one can reuse its cached prefix.
    """

    name: str
    counter: TokenCounter
    window: int | None
    legality: LegalityProfile
    mixes: bool = False
    most_output: int | None = None
    model: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls, model: Any, *, nameless: str | None = None, models: ModelLimits | None = None
    ) -> CalledModel:
        """Return what there is to know of a chat model, or of a runnable around one.

        Args:
            model: The chat model.
            nameless: Name of the model that stands in for one without a name, as an estimate.
            models: Limits of models without a profile.
        """
        checked_model(model, "memory.for_model(model)")
        most = told_limits(model, models).get("max_output_tokens")
        counters = {id(counter_for(one, nameless=nameless)) for one in models_of(model)}
        return cls(
            name=model_name(model) or type(unwrap_model(model)).__name__,
            counter=counter_for(model, nameless=nameless),
            window=window_of(model, models),
            legality=profile_of_model(model),
            mixes=len(counters) > 1,
            most_output=most if isinstance(most, int) and most > 0 else None,
            model=model,
        )

    def own_budget(self, budget: TokenBudget) -> TokenBudget:
        """Return a budget in the window of this model; itself where the model does not tell it."""
        return budget if self.window is None else budget.in_window(self.window, self.most_output)
