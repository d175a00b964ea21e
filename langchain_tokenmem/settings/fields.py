"""The fields of `TokenMemorySettings`: those of a memory, and a group for each other part."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from langchain_tokenmem.settings.groups import (
    BudgetSettings,
    LimitSettings,
    ModeSettings,
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


class SettingFields(BaseSettings):
    """The fields, their types and defaults."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), use_attribute_docstrings=True
    )

    budget: BudgetSettings = BudgetSettings()
    """The window."""
    models: dict[str, LimitSettings] = Field(
        default={},
        examples=[{"glm-4.7": {"max_input_tokens": 128_000, "max_output_tokens": 131_072}}],
    )
    """Limits of models without a profile, by name or pattern."""
    summarizer: str | None = Field(default=None, examples=["openai:gpt-4o-mini"])
    """Model of the summaries, `provider:model`; none or `extractive`: no model."""
    trigger: TriggerSettings | None = TriggerSettings()
    """When a summary is due; none: never."""
    max_tail_messages: int | None = Field(default=None, examples=[40])
    """Most messages after the summary, more than 10."""
    max_messages: int | None = Field(default=None, ge=2, examples=[20])
    """Most messages of a request."""
    pin_first: bool = True
    """Keep the first request."""
    dangling: Literal["answer", "drop"] = "answer"
    """For a tool call without a result."""
    recall_scope: Literal["session", "user"] = "session"
    """Scope in which recall looks."""
    recall_k: int | None = Field(default=None, examples=[5])
    """Most messages recalled; 0: none, `none`: the mode's."""
    background: bool = True
    """Summaries behind the reply."""
    max_wait_s: float = 30.0
    """Seconds that a turn waits at most: for a summary, recall, notes, a lock, all together."""
    summary_timeout_s: float = 120.0
    """Seconds after which one is given up."""
    max_parallel_summaries: int = Field(default=8, ge=1)
    """Most of them at once."""
    legality: str = "auto"
    """Rules of the provider: a profile's name."""
    summary_role: Literal["auto", "system", "human"] = "auto"
    """Message that holds the summary."""
    turn_memory: Literal["when_hidden", "always", "never"] = "when_hidden"
    """Answers that show what their turn did."""
    tool_kinds: ToolKindsSettings | None = ToolKindsSettings()
    """Tools that write, run or only read."""
    project_root: str | None = Field(default=None, examples=["/app"])
    """Folder that paths are relative to."""
    include_partial: bool = False
    """Turn memory of failed turns, too."""
    mode: ModeSettings | None = ModeSettings()
    """Working notes; none: off."""
    show_times: Literal["human", "all"] | None = Field(default=None, examples=["human"])
    """Messages that show their time."""
    inject_notes: bool = True
    """Notes come into the request."""
    notes: NotebookSettings | None = None
    """Notes; none: off."""
    recall_settings: RecallSettings | None = Field(default=None, alias="recall")
    """Recall in `memory()`; none: off."""
    store_settings: StoreSettings = Field(default=StoreSettings(), alias="store")
    """The database."""
    saver_settings: SaverSettings = Field(default=SaverSettings(), alias="saver")
    """The checkpointer."""
    middleware_settings: MiddlewareSettings = Field(
        default=MiddlewareSettings(), alias="middleware"
    )
    """The agent's middleware."""
