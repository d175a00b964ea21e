"""The settings as groups of fields, by the names that the parts themselves have.

A field that was not given is not handed on: the part's own default holds, which is the one here.
Fields with `repr=False` are secrets and are shown nowhere.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from langchain_tokenmem.core.budget import DEFAULT_CONTEXT_WINDOW, Shares, TokenBudget
from langchain_tokenmem.core.chat_models import ModelLimits
from langchain_tokenmem.core.request_options import RequestRules, Trigger
from langchain_tokenmem.core.working_notes.mode_profiles import (
    MODES,
    ModeProfile,
    mode_named,
)
from langchain_tokenmem.core.working_notes.tool_kinds import (
    ToolKinds,
    TurnMemorySettings,
)
from langchain_tokenmem.memory.background import BackgroundSummaries
from langchain_tokenmem.recall.fusion import Boosts, Floor
from langchain_tokenmem.storage.lifecycle import ExpiryPolicy


class SettingsGroup(BaseModel):
    """Base of every group: no other keys, and nothing is changed afterwards."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), use_attribute_docstrings=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any, info: ValidationInfo) -> Any:
        """Take `none` as text for None, and no bool for a number, as pydantic would."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        kinds = {annotation, *get_args(annotation)}
        is_none = isinstance(value, str) and value.strip().lower() in {"none", "null"}
        if is_none and type(None) in kinds:
            return None
        if isinstance(value, bool) and {int, float} & kinds and bool not in kinds:
            raise ValueError(f"it is {value}, and needs to be a number.")
        return value

    def given(self) -> dict[str, Any]:
        """Return the fields that were given, by the part's own names, and groups as parts."""
        given = ((name, getattr(self, name)) for name in sorted(self.model_fields_set))
        return {name: one.made() if isinstance(one, MadeSettings) else one for name, one in given}


class MadeSettings(SettingsGroup):
    """Base of the groups that a part without I/O is made of: it is made at once, as a check."""

    part: ClassVar[Any]
    """Class of the part."""

    @model_validator(mode="after")
    def _works(self) -> Self:
        self.made()
        return self

    def made(self) -> Any:
        """Return the part."""
        return self.part(**self.given())


class SharesSettings(MadeSettings):
    """Settings of `Shares`."""

    part = Shares

    recent: float = 0.30
    """Newest share in which no result is shortened."""
    summary: float = 0.20
    """Largest share of the running summary."""
    message: float = 0.80
    """Largest share of one message."""
    pinned: float = 0.15
    """Share that the first request keeps at least."""
    recall: float = 0.15
    """Largest share of recalled messages."""
    notes: float = 0.05
    """Largest share of notes."""
    working_recall: float = 0.02
    """Largest share of the lines that come back beside one tool result; 0: none."""
    result_tokens: int | None = Field(default=None, examples=[500])
    """Tokens kept of an old tool result; none: by the window."""
    result_chars: int | None = Field(default=None, examples=[4_000])
    """Characters kept of it; the smaller one wins."""
    error_chars: int = 10_000
    """Characters kept of an old result with an error."""


class BudgetSettings(MadeSettings):
    """Settings of a `TokenBudget`."""

    context_window: int | None = Field(default=None, examples=[32_000])
    """Context window in tokens; none: the model's."""
    reserve_output: int | None = Field(default=None, examples=[2_000])
    """Tokens kept free for the answer; none: by the window."""
    margin: float | None = Field(default=None, examples=[0.05])
    """Safety margin, share of the window; none: by the counter."""
    compact_at: float = 0.75
    """Old tool results are shortened from here."""
    summarize_at: float = 0.80
    """The oldest messages are summarized from here."""
    target: float = 0.40
    """Share of the window that each change goes down to."""
    shares: SharesSettings = SharesSettings()
    """Largest share of each part of a request."""
    cache_ttl_s: float | None = 300.0
    """Seconds that a provider keeps a cached prefix; none: pauses do not matter."""
    model: str | None = Field(default=None, examples=["gpt-4o"])
    """Model that tokens are counted for."""

    def made(self, model: Any = None, models: ModelLimits | None = None) -> TokenBudget:
        """Return the budget.

        Args:
            model: The chat model or its name, which tells what is not given.
            models: Limits of models without a profile.
        """
        given = self.given().items()
        fields = {name: one for name, one in given if one is not None or name == "cache_ttl_s"}
        if model is None:
            return TokenBudget(**{"context_window": DEFAULT_CONTEXT_WINDOW, **fields})
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
    """Sizes that make a summary due."""

    tokens: int | None = Field(default=None, examples=[20_000])
    """A summary is due at this many tokens."""
    fraction: float | None = Field(default=None, examples=[0.6])
    """A summary is due at this share of the window."""
    messages: int | None = Field(default=None, examples=[40])
    """A summary is due at this many messages."""
    combine: Literal["any", "all"] = "any"
    """`any` or `all` of the sizes."""

    def made(self) -> Trigger | None:
        """Return the trigger."""
        sizes = self.model_dump(include={"tokens", "fraction", "messages"}, exclude_none=True)
        if not sizes:
            return Trigger()
        return Trigger.of(sizes if self.combine == "all" else [*sizes.items()])


class RequestSettings(MadeSettings):
    """Settings of `RequestRules`."""

    part = RequestRules

    legality: str = "auto"
    """Provider rules: name of a profile."""
    summary_role: Literal["auto", "system", "human"] = "auto"
    """Role of the message with the summary."""
    dangling: Literal["answer", "drop"] = "answer"
    """A tool call without a result: `answer` or `drop` it."""
    pin_first: bool = True
    """Keep the first request in view."""
    max_messages: int | None = Field(default=None, examples=[20])
    """Messages of a request, at most; 2 or more."""
    max_tail_messages: int | None = Field(default=None, examples=[40])
    """Messages after the summary, at most; 11 or more."""
    show_times: Literal["human", "all"] | None = Field(default=None, examples=["human"])
    """Messages that show their time: `human` or `all`."""
    keep_results: int = Field(default=0, ge=0)
    """How many of the newest tool results are never shortened as they get old."""
    whole_tools: list[str] = Field(default=[], examples=[["search"]])
    """Tools whose results are never shortened as they get old."""
    clear_tool_inputs: bool = False
    """Leave out the arguments of tool calls with their results."""


class BackgroundSettings(MadeSettings):
    """Settings of summaries behind the reply."""

    part = BackgroundSummaries

    timeout_s: float = 120.0
    """Seconds after which a summary is given up."""
    at_once: int = 8
    """Summaries at once, at most."""


class ToolKindsSettings(MadeSettings):
    """Settings of `ToolKinds`."""

    part = ToolKinds

    writes: dict[str, str] = Field(default={}, examples=[{"save_page": "page_path"}])
    """Writing tools and their argument with the file."""
    commands: dict[str, str] = Field(default={}, examples=[{"run_job": "script"}])
    """Tools that run commands and their argument."""
    reads: list[str] = Field(default=[], examples=[["preview_edit"]])
    """Tools that only read."""


class TurnMemoryGroup(MadeSettings):
    """Settings of turn memory."""

    part = TurnMemorySettings

    shown: Literal["when_hidden", "always", "never"] = "when_hidden"
    """Answers that show their turn memory."""
    tools: ToolKindsSettings = ToolKindsSettings()
    """Tools that write, run or only read."""
    project_root: str | None = Field(default=None, examples=["/app"])
    """Folder that paths are relative to."""
    include_partial: bool = False
    """Turn memory of interrupted turns too."""


class ModeSettings(MadeSettings):
    """A mode: one with a name of its own, changed where fields are given, or a new one."""

    name: str = "conversation"
    """`conversation`, `code`, `reasoning`, or your own."""
    window: int | None = Field(default=None, examples=[20])
    """Messages that a summary by hand leaves verbatim, at least."""
    sections: list[str] | None = Field(default=None, examples=[["facts", "topics"]])
    """Sections that are shown."""
    summarization: bool = True
    """Older messages are summarized."""
    recall_k: int = 3
    """Recalled messages, at most."""
    limits: dict[str, int] = Field(default={}, examples=[{"files": 30, "facts": 50}])
    """Items kept of a section, at most."""
    share: float | None = Field(default=None, examples=[0.8])
    """Part of `shares.notes` for the mode's notes."""
    prefix_max_stale_turns: int = 3
    """Turns for which a section is shown after its last change."""
    system_text: str = Field(default="", examples=["Be brief."])
    """Text appended to the system text."""
    summary_sections: list[str] | None = Field(default=None, examples=[["Decisions", "State"]])
    """Headings of a summary."""
    tools: list[str] = Field(default=[], examples=[["search"]])
    """Tools offered to the agent; empty: all."""

    def made(self) -> ModeProfile:
        """Return the mode."""
        fields = {k: v for k, v in self.given().items() if k != "name" and v is not None}
        if self.name in MODES or not {"window", "sections"} <= fields.keys():
            return replace(mode_named(self.name), **fields)
        return ModeProfile(self.name, **fields)


class StoreSettings(SettingsGroup):
    """Settings of a `TranscriptStore`."""

    url: str = Field(default="sqlite:///tokenmem.db", repr=False, min_length=1)
    """URL of the database, or path of a SQLite file."""
    pool_size: int = Field(default=8, ge=1)
    """Connections, at most."""
    inactive_for: timedelta | None = Field(default=None, examples=["P30D"])
    """Inactivity after which sessions expire, such as `P30D`."""
    expire_every: timedelta | None = Field(default=None, examples=["P1D"])
    """Interval of automatic expiry, such as `P1D`."""
    require_user: bool = False
    """Refuse calls about a session that name no user."""
    shared: bool = False
    """Allow calls without a user on sessions that have an owner."""

    @model_validator(mode="after")
    def _works(self) -> StoreSettings:
        ExpiryPolicy(inactive_for=self.inactive_for, expire_every=self.expire_every)
        return self


class FloorSettings(MadeSettings):
    """Settings of a recall's `Floor`."""

    part = Floor

    share: float = Field(default=0.5, ge=0)
    """Share of the question's weight that a very long message needs; a shorter one needs less."""
    strong_share: float = Field(default=0.65, ge=0)
    """Share of the question's weight at which one term, or several, are enough."""
    cosine: float | None = 0.3
    """Cosine at which meaning alone is enough."""
    each_share: float = Field(default=0.01, ge=0)
    """Share that every hit needs."""
    each_cosine: float = 0.1
    """Cosine that a hit without such words needs."""


class BoostsSettings(MadeSettings):
    """Settings of a recall's `Boosts`."""

    part = Boosts

    speaker: float = Field(default=0.5, ge=0)
    """Added for a speaker named in the question."""
    date: float = Field(default=0.3, ge=0)
    """Added for a date named in the question."""
    order: float = Field(default=0.3, ge=0)
    """Added for the latest or first candidate, if the question asks for it."""


class ChromaSettings(SettingsGroup):
    """Settings of a `ChromaIndex`."""

    path: str | None = Field(default=None, examples=["./chroma"])
    """Folder of an embedded Chroma."""
    embeddings: str | None = Field(default=None, examples=["chroma-default"])
    """Name of the embedding model."""
    host: str | None = Field(default=None, examples=["localhost"])
    """Host of a server."""
    port: int = Field(default=8000, ge=1, le=65_535)
    """Port of the server."""
    ssl: bool = False
    """Use TLS."""
    headers: dict[str, str] | None = Field(
        default=None, repr=False, examples=[{"Authorization": "Bearer x"}]
    )
    """HTTP headers for the server."""
    cloud: dict[str, str] | None = Field(
        default=None, repr=False, examples=[{"tenant": "t", "api_key": "k"}]
    )
    """Tenant, database and key of Chroma Cloud."""
    collection: str = "tokenmem"
    """Prefix of the collections' names."""
    model: str | None = Field(default=None, examples=["minilm"])
    """Name of the model in log messages."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Seconds that a request may take."""


class RecallSettings(SettingsGroup):
    """Settings of a `Recall`."""

    embeddings: str | None = Field(default=None, examples=["openai:text-embedding-3-small"])
    """Vectors without Chroma: `provider:model`."""
    on_model_change: Literal["refuse", "rebuild"] = "refuse"
    """If the embedding model changed: `refuse` or `rebuild`."""
    language: str = "english"
    """Language of stems and stop words."""
    lexical_weight: float = Field(default=0.4, ge=0)
    """Weight of words."""
    dense_weight: float = Field(default=0.6, ge=0)
    """Weight of vectors."""
    floor: FloorSettings = FloorSettings()
    """What a hit needs in common with the question."""
    boosts: BoostsSettings = BoostsSettings()
    """Boosts for speakers and dates."""
    chroma: ChromaSettings | None = None
    """Vectors in Chroma."""
    scope: Literal["session", "user"] = "session"
    """Recall from this `session` or all of the `user`."""
    k: int | None = Field(default=None, ge=0, examples=[5])
    """Recalled messages, at most; 0: off, none: by the mode."""


class NotebookSettings(SettingsGroup):
    """Settings of a `Notebook`."""

    project: str = Field(default="default", min_length=1)
    """Project of the notes."""
    limit: int = Field(default=1_000, ge=1)
    """Notes per level and scope, at most."""
    local_user: str | None = Field(default=None, examples=["ann"])
    """The only user of this process."""
    language: str = "english"
    """Language of stems and stop words."""
    session_lifetime: timedelta | None = Field(default=None, examples=["P30D"])
    """Time after which session notes expire, such as `P30D`."""
    in_requests: bool = True
    """Add notes to the request."""


class SaverSettings(SettingsGroup):
    """Settings of a `TokenMemorySaver`."""

    on_conflict: Literal["branch", "raise"] = "branch"
    """If another run continued the thread: `branch` or `raise`."""
    metadata_keys: list[str] = Field(default=[], examples=[["tenant"]])
    """More keys of `configurable` to store in the metadata."""
    transcript_channel: str | None = "messages"
    """Channel that becomes the transcript."""
    keep_last: int | None = Field(default=None, ge=1, examples=[100])
    """Newest checkpoints to keep."""
    older_than: timedelta | None = Field(default=None, examples=["P30D"])
    """Age at which checkpoints are deleted, such as `P30D`."""
    prune_every: int = Field(default=30, ge=1)
    """Checkpoints between two prunings."""
    on_remove: Literal["keep", "hide"] = "keep"
    """Messages removed from a thread: `keep` or `hide`."""


class MiddlewareSettings(SettingsGroup):
    """Settings of a `TokenMemoryMiddleware`."""

    name: str = Field(default="TokenMemoryMiddleware", min_length=1)
    """Key in the agent's state."""
    automatic: bool = True
    """Compact when it is due."""
    agent_tools: bool | list[str] = False
    """Memory tools for the agent: a bool or names."""
    limit_output: Literal[True] | str | None = Field(default=None, examples=[True])
    """Limit the model's output to what the request leaves."""
    shared_threads: bool = False
    """Threads are shared and have no owner."""

    @field_validator("limit_output", mode="before")
    @classmethod
    def _as_true(cls, value: Any) -> Any:
        words = {"true": True, "false": None}
        return words.get(value.lower(), value) if isinstance(value, str) else value or None


class MemorySettings(SettingsGroup):
    """Settings of a `TokenMemory`, and a group for each other part."""

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
    request: RequestSettings = RequestSettings()
    """Rules for every request."""
    background: BackgroundSettings | None = BackgroundSettings()
    """Write summaries after the reply; none: during the turn."""
    max_wait_s: float = 30.0
    """Seconds that a turn waits, at most, for everything."""
    turn_memory: TurnMemoryGroup = TurnMemoryGroup()
    """Files that a turn changed, and commands that failed."""
    mode: ModeSettings | None = ModeSettings()
    """Working notes; none: off."""
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
