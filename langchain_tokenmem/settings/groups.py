"""The settings of a memory as groups of fields, by the names that the parts themselves have.

A field that was not given is not handed on: the part's own default holds, which is the one here.
Fields with `repr=False` are secrets and are shown nowhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

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

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    def given(self) -> dict[str, Any]:
        """Return the fields that were given, by the names that the part has for them."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}


class BudgetSettings(SettingsGroup):
    """Settings of a `TokenBudget`."""

    context_window: int | None = Field(
        default=None,
        description="Tokens that the model takes; none: the model's own.",
        examples=[32_000],
    )
    reserve_output: int | None = Field(
        default=None,
        description="Tokens kept free for the answer; none: by the window.",
        examples=[2_000],
    )
    margin: float | None = Field(
        default=None,
        description="Safety, of the window; none: by the way of counting.",
        examples=[0.05],
    )
    warn_at: float = Field(
        default=0.80, description="`TokenUsage.near_limit` is true from here on."
    )
    compact_at: float = Field(
        default=0.75, description="Old tool results are shortened from here on."
    )
    summarize_at: float = Field(
        default=0.80, description="The oldest messages are summarized from here."
    )
    target: float = Field(
        default=0.40, description="Both steps go down to this share of the window."
    )
    recent_share: float = Field(
        default=0.30, description="Newest share in which no result is shortened."
    )
    summary_share: float = Field(default=0.20, description="Most that the running summary takes.")
    message_share: float = Field(default=0.80, description="Most that one message takes.")
    pinned_share: float = Field(default=0.15, description="Least that the first request keeps.")
    recall_share: float = Field(default=0.15, description="Most that recalled messages take.")
    notes_share: float = Field(default=0.05, description="Most that notes take.")
    result_tokens: int | None = Field(
        default=None,
        description="Tokens of an old tool result; none: by the window.",
        examples=[500],
    )
    result_chars: int | None = Field(
        default=None,
        description="Characters of an old tool result; the smaller wins.",
        examples=[4_000],
    )
    error_chars: int = Field(
        default=10_000, description="Characters of an old result with an error."
    )
    model: str | None = Field(
        default=None, description="Name of the model that is counted for.", examples=["gpt-4o"]
    )

    @model_validator(mode="after")
    def _works(self) -> BudgetSettings:
        self.made()
        return self

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

    max_input_tokens: int = Field(description="Context window, in tokens.", ge=256)
    max_output_tokens: int | None = Field(
        default=None, description="Longest answer, in tokens.", ge=1
    )


class TriggerSettings(SettingsGroup):
    """Settings of a `Trigger`."""

    tokens: int | None = Field(
        default=None, description="A summary is due from this many tokens on.", examples=[20_000]
    )
    fraction: float | None = Field(
        default=None,
        description="A summary is due from this share of the window on.",
        examples=[0.6],
    )
    messages: int | None = Field(
        default=None, description="A summary is due from this many messages on.", examples=[40]
    )
    combine: Literal["any", "all"] = Field(
        default="any", description="Whether one condition is enough."
    )

    @model_validator(mode="after")
    def _works(self) -> TriggerSettings:
        self.made()
        return self

    def made(self) -> Trigger:
        """Return the trigger."""
        return Trigger(**self.given())


class ToolKindsSettings(SettingsGroup):
    """Settings of `ToolKinds`."""

    writes: dict[str, str] = Field(
        default={},
        description="Argument with the file, by tool.",
        examples=[{"save_page": "page_path"}],
    )
    commands: dict[str, str] = Field(
        default={},
        description="Argument with the command, by tool.",
        examples=[{"run_job": "script"}],
    )
    reads: list[str] = Field(
        default=[], description="Tools that only read.", examples=[["preview_edit"]]
    )

    @model_validator(mode="after")
    def _works(self) -> ToolKindsSettings:
        self.made()
        return self

    def made(self) -> ToolKinds:
        """Return the kinds."""
        return ToolKinds(**self.given())


class ModeSettings(SettingsGroup):
    """A mode: one with a name of its own, changed where fields are given, or a new one."""

    name: str = Field(
        default="conversation", description="`conversation`, `code`, `reasoning`, or a new."
    )
    window: int | None = Field(
        default=None, description="Messages that stay verbatim at least.", examples=[20]
    )
    sections: list[str] | None = Field(
        default=None, description="Sections that are shown.", examples=[["facts", "topics"]]
    )
    summarization: bool = Field(default=True, description="Older messages are summarized.")
    recall_k: int = Field(default=3, description="Most messages that recall brings back.")
    max_files: int = Field(default=20, description="Files kept.")
    max_commands: int = Field(default=6, description="Commands kept that have succeeded.")
    max_errors: int = Field(default=5, description="Errors kept.")
    max_progress: int = Field(default=10, description="Steps of progress kept.")
    max_topics: int = Field(default=10, description="Topics kept.")
    max_entities: int = Field(default=20, description="Names kept.")
    max_facts: int = Field(default=20, description="Facts about the user kept.")
    max_constraints: int = Field(default=20, description="Constraints kept.")
    max_decisions: int = Field(default=20, description="Decisions kept.")
    max_alternatives: int = Field(
        default=10, description="Rejected alternatives kept of a decision."
    )
    max_assumptions: int = Field(default=10, description="Assumptions kept.")
    max_subgoals: int = Field(default=10, description="Sub-goals kept.")
    share: float | None = Field(
        default=None,
        description="Part of `notes_share` that the mode's notes take.",
        examples=[0.8],
    )
    prefix_max_stale_turns: int = Field(
        default=3, description="Turns that an old section is shown."
    )
    system_text: str = Field(
        default="", description="Text behind the system text.", examples=["Be brief."]
    )
    summary_sections: list[str] | None = Field(
        default=None, description="Headings of a summary.", examples=[["Decisions", "State"]]
    )
    tools: list[str] = Field(
        default=[], description="Tools offered in the mode; empty: all.", examples=[["search"]]
    )

    @model_validator(mode="after")
    def _works(self) -> ModeSettings:
        self.made()
        return self

    def made(self) -> ModeProfile:
        """Return the mode."""
        fields = {k: v for k, v in self.given().items() if k != "name" and v is not None}
        if self.name in MODES or not {"window", "sections"} <= fields.keys():
            return replace(mode_named(self.name), **fields)
        return ModeProfile(self.name, **fields)
