"""The fields of `TokenMemorySettings`: those of a memory, and a group for each other part."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from langchain_tokenmem.settings.groups import (
    BudgetSettings,
    LimitSettings,
    ModeSettings,
    SettingsGroup,
    ToolKindsSettings,
    TriggerSettings,
)
from langchain_tokenmem.settings.part_groups import (
    MiddlewareSettings,
    NotebookSettings,
    RecallSettings,
    SaverSettings,
    StoreSettings,
)


class SettingFields(SettingsGroup):
    """The fields, their types and defaults."""

    budget: BudgetSettings = Field(default=BudgetSettings(), description="The window.")
    models: dict[str, LimitSettings] = Field(
        default={},
        description="Limits of models without a profile, by name or pattern.",
        examples=[{"glm-4.7": {"max_input_tokens": 128_000, "max_output_tokens": 131_072}}],
    )
    summarizer: str | None = Field(
        default=None,
        description="Model of the summaries, `provider:model`; none or `extractive`: no model.",
        examples=["openai:gpt-4o-mini"],
    )
    trigger: TriggerSettings | None = Field(
        default=TriggerSettings(), description="When a summary is due; none: never."
    )
    max_tail_messages: int | None = Field(
        default=None, description="Most messages after the summary, more than 10.", examples=[40]
    )
    max_messages: int | None = Field(
        default=None, description="Most messages of a request.", ge=2, examples=[20]
    )
    model_notes: bool = Field(
        default=False, description="A model that writes an entry corrects the notes."
    )
    pin_first: bool = Field(default=True, description="Keep the first request.")
    dangling: Literal["answer", "drop"] = Field(
        default="answer", description="For a tool call without a result."
    )
    recall_scope: Literal["session", "user"] = Field(
        default="session", description="Where recall looks."
    )
    recall_k: int | None = Field(
        default=None,
        description="Most messages recalled; 0: none, `none`: the mode's.",
        examples=[5],
    )
    background: bool = Field(default=True, description="Summaries behind the reply.")
    max_wait_s: float = Field(
        default=30.0, description="Seconds that a call waits for one at most."
    )
    summary_timeout_s: float = Field(
        default=120.0, description="Seconds after which one is given up."
    )
    max_parallel_summaries: int = Field(default=8, description="Most of them at once.", ge=1)
    legality: str = Field(default="auto", description="Rules of the provider: a profile's name.")
    summary_role: Literal["auto", "system", "human"] = Field(
        default="auto", description="Message that holds the summary."
    )
    turn_memory: Literal["when_hidden", "always", "never"] = Field(
        default="when_hidden", description="Answers that show what their turn did."
    )
    tool_kinds: ToolKindsSettings | None = Field(
        default=ToolKindsSettings(), description="Tools that write, run or only read."
    )
    project_root: str | None = Field(
        default=None, description="Folder that paths are relative to.", examples=["/app"]
    )
    include_partial: bool = Field(
        default=False,
        description="Turn memory of failed turns, too.",
    )
    mode: ModeSettings | None = Field(
        default=ModeSettings(), description="Working notes; none: off."
    )
    show_times: Literal["human", "all"] | None = Field(
        default=None, description="Messages that show their time.", examples=["human"]
    )
    inject_notes: bool = Field(default=True, description="Notes come into the request.")
    notes: NotebookSettings | None = Field(default=None, description="Notes; none: off.")
    recall_settings: RecallSettings | None = Field(
        default=None, alias="recall", description="Recall in `memory()`; none: off."
    )
    store_settings: StoreSettings = Field(
        default=StoreSettings(), alias="store", description="The database."
    )
    saver_settings: SaverSettings = Field(
        default=SaverSettings(), alias="saver", description="The checkpointer."
    )
    middleware_settings: MiddlewareSettings = Field(
        default=MiddlewareSettings(), alias="middleware", description="The agent's middleware."
    )
