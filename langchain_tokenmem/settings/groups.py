"""The settings of a memory as groups of fields, by the names that the parts themselves have.

A field that was not given is not handed on: the part's own default holds, which is the one here.
Fields with `repr=False` are secrets and are shown nowhere.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from langchain_tokenmem.core.budget import DEFAULT_CONTEXT_WINDOW, TokenBudget
from langchain_tokenmem.core.model_limits import ModelLimits
from langchain_tokenmem.core.trigger import Trigger
from langchain_tokenmem.core.working_notes.mode_profiles import MODES, ModeProfile, mode_named
from langchain_tokenmem.core.working_notes.tool_kinds import ToolKinds

_BY_WINDOW = {"reserve_output", "result_tokens"}
"""Fields of a budget that follow the window where they are None."""


class SettingsGroup(BaseModel):
    """Base of every group: no other keys, and nothing is changed afterwards."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), use_attribute_docstrings=True
    )

    def given(self) -> dict[str, Any]:
        """Return the fields that were given, by the names that the part has for them."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}


class MadeSettings(SettingsGroup):
    """Base of the groups that a part without I/O is made of: it is made at once, as a check."""

    @model_validator(mode="after")
    def _works(self) -> Self:
        self.made()
        return self

    @abstractmethod
    def made(self) -> Any:
        """Return the part."""


class BudgetSettings(MadeSettings):
    """Settings of a `TokenBudget`."""

    context_window: int | None = Field(default=None, examples=[32_000])
    """Tokens that the model takes; none: the model's own."""
    reserve_output: int | None = Field(default=None, examples=[2_000])
    """Tokens kept free for the answer; none: by the window."""
    margin: float | None = Field(default=None, examples=[0.05])
    """Safety, of the window; none: by the way of counting."""
    warn_at: float = 0.80
    """`TokenUsage.near_limit` is true from here on."""
    compact_at: float = 0.75
    """Old tool results are shortened from here on."""
    summarize_at: float = 0.80
    """The oldest messages are summarized from here."""
    target: float = 0.40
    """Both steps go down to this share of the window."""
    recent_share: float = 0.30
    """Newest share in which no result is shortened."""
    summary_share: float = 0.20
    """Most that the running summary takes."""
    message_share: float = 0.80
    """Most that one message takes."""
    pinned_share: float = 0.15
    """Least that the first request keeps."""
    recall_share: float = 0.15
    """Most that recalled messages take."""
    notes_share: float = 0.05
    """Most that notes take."""
    result_tokens: int | None = Field(default=None, examples=[500])
    """Tokens of an old tool result; none: by the window."""
    result_chars: int | None = Field(default=None, examples=[4_000])
    """Characters of an old tool result; the smaller wins."""
    error_chars: int = 10_000
    """Characters of an old result with an error."""
    model: str | None = Field(default=None, examples=["gpt-4o"])
    """Name of the model that is counted for."""

    def made(self, model: Any = None, models: ModelLimits | None = None) -> TokenBudget:
        """Return the budget.

        Args:
            model: The chat model or its name, which tells what is not given.
            models: Limits of models without a profile.
        """
        given = self.given()
        fields = {k: v for k, v in given.items() if v is not None or k not in _BY_WINDOW}
        if model is None:
            if fields.get("context_window") is None:
                fields["context_window"] = DEFAULT_CONTEXT_WINDOW
            return TokenBudget(**fields)
        if fields.get("context_window") is None:
            fields.pop("context_window", None)
        counted = fields.pop("model", None)
        budget = TokenBudget.for_model(model, models=models, **fields)
        return budget if counted is None else replace(budget, model=counted)


class LimitSettings(SettingsGroup):
    """Limits of a model without a profile."""

    max_input_tokens: int = Field(ge=256)
    """Context window, in tokens."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Longest answer, in tokens."""


class TriggerSettings(MadeSettings):
    """Settings of a `Trigger`."""

    tokens: int | None = Field(default=None, examples=[20_000])
    """A summary is due from this many tokens on."""
    fraction: float | None = Field(default=None, examples=[0.6])
    """A summary is due from this share of the window on."""
    messages: int | None = Field(default=None, examples=[40])
    """A summary is due from this many messages on."""
    combine: Literal["any", "all"] = "any"
    """Whether one condition is enough."""

    def made(self) -> Trigger:
        """Return the trigger."""
        return Trigger(**self.given())


class ToolKindsSettings(MadeSettings):
    """Settings of `ToolKinds`."""

    writes: dict[str, str] = Field(default={}, examples=[{"save_page": "page_path"}])
    """Argument with the file, by tool."""
    commands: dict[str, str] = Field(default={}, examples=[{"run_job": "script"}])
    """Argument with the command, by tool."""
    reads: list[str] = Field(default=[], examples=[["preview_edit"]])
    """Tools that only read."""

    def made(self) -> ToolKinds:
        """Return the kinds."""
        return ToolKinds(**self.given())


class ModeSettings(MadeSettings):
    """A mode: one with a name of its own, changed where fields are given, or a new one."""

    name: str = "conversation"
    """`conversation`, `code`, `reasoning`, or a new."""
    window: int | None = Field(default=None, examples=[20])
    """Messages that stay verbatim at least."""
    sections: list[str] | None = Field(default=None, examples=[["facts", "topics"]])
    """Sections that are shown."""
    summarization: bool = True
    """Older messages are summarized."""
    recall_k: int = 3
    """Most messages that recall brings back."""
    max_files: int = 20
    """Files kept."""
    max_commands: int = 6
    """Commands kept that have succeeded."""
    max_errors: int = 5
    """Errors kept."""
    max_progress: int = 10
    """Steps of progress kept."""
    max_topics: int = 10
    """Topics kept."""
    max_entities: int = 20
    """Names kept."""
    max_facts: int = 20
    """Facts about the user kept."""
    max_constraints: int = 20
    """Constraints kept."""
    max_decisions: int = 20
    """Decisions kept."""
    max_alternatives: int = 10
    """Rejected alternatives kept of a decision."""
    max_assumptions: int = 10
    """Assumptions kept."""
    max_subgoals: int = 10
    """Sub-goals kept."""
    share: float | None = Field(default=None, examples=[0.8])
    """Part of `notes_share` that the mode's notes take."""
    prefix_max_stale_turns: int = 3
    """Turns that an old section is shown."""
    system_text: str = Field(default="", examples=["Be brief."])
    """Text behind the system text."""
    summary_sections: list[str] | None = Field(default=None, examples=[["Decisions", "State"]])
    """Headings of a summary."""
    tools: list[str] = Field(default=[], examples=[["search"]])
    """Tools offered in the mode; empty: all."""

    def made(self) -> ModeProfile:
        """Return the mode."""
        fields = {k: v for k, v in self.given().items() if k != "name" and v is not None}
        if self.name in MODES or not {"window", "sections"} <= fields.keys():
            return replace(mode_named(self.name), **fields)
        return ModeProfile(self.name, **fields)
