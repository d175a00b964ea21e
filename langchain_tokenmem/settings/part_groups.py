"""The settings of the store, recall, notes, checkpointer and middleware, as groups of fields."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from langchain_tokenmem.settings.groups import SettingsGroup
from langchain_tokenmem.storage.lifecycle import ExpiryPolicy


class StoreSettings(SettingsGroup):
    """Settings of a `TranscriptStore`."""

    url: str = Field(default="sqlite:///tokenmem.db", repr=False, min_length=1)
    """URL of the database, or path of a SQLite file."""
    pool_size: int = Field(default=8, ge=1)
    """Most connections at a time."""
    inactive_for: timedelta | None = Field(default=None, examples=["P30D"])
    """Age from which unused sessions expire, such as `P30D`."""
    expire_every: timedelta | None = Field(default=None, examples=["P1D"])
    """Time between two looks at these."""

    @model_validator(mode="after")
    def _works(self) -> StoreSettings:
        ExpiryPolicy(inactive_for=self.inactive_for, expire_every=self.expire_every)
        return self


class FloorSettings(SettingsGroup):
    """Settings of a recall's `Floor`."""

    terms: int = Field(default=2, ge=0)
    """Terms of the question in the best message."""
    share: float = Field(default=0.2, ge=0)
    """Share of the question's weight in it."""
    strong_share: float = Field(default=0.22, ge=0)
    """The share from which one term is enough."""
    strict_share: float = Field(default=0.24, ge=0)
    """The same where there are vectors."""
    cosine: float | None = 0.3
    """Cosine from which meaning alone is enough."""
    each_share: float = Field(default=0.01, ge=0)
    """Share that every message has."""
    each_cosine: float = 0.1
    """Cosine of a message without such words."""


class BoostsSettings(SettingsGroup):
    """Settings of a recall's `Boosts`."""

    speaker: float = Field(default=0.5, ge=0)
    """Added for the speaker whom the question names."""
    date: float = Field(default=0.3, ge=0)
    """Added for a date that the question names."""


class ChromaSettings(SettingsGroup):
    """Settings of a `ChromaIndex`."""

    path: str | None = Field(default=None, examples=["./chroma"])
    """Folder of an embedded Chroma."""
    embeddings: str | None = Field(default=None, examples=["chroma-default"])
    """Name of the embedding model."""
    host: str | None = Field(default=None, examples=["localhost"])
    """Host of a server."""
    port: int = Field(default=8000, ge=1, le=65_535)
    """Its port."""
    ssl: bool = False
    """It speaks TLS."""
    headers: dict[str, str] | None = Field(
        default=None, repr=False, examples=[{"Authorization": "Bearer x"}]
    )
    """Sent to it."""
    cloud: dict[str, str] | None = Field(
        default=None, repr=False, examples=[{"tenant": "t", "api_key": "k"}]
    )
    """Chroma Cloud."""
    collection: str = "tokenmem"
    """First part of the collections' names."""
    model: str | None = Field(default=None, examples=["minilm"])
    """Name of the embeddings in messages."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Seconds for a request."""


class RecallSettings(SettingsGroup):
    """Settings of a `Recall`."""

    embeddings: str | None = Field(default=None, examples=["openai:text-embedding-3-small"])
    """Vectors without Chroma: `provider:model`."""
    on_model_change: Literal["refuse", "rebuild"] = "refuse"
    """For vectors of another embedding model."""
    language: str = "english"
    """Of stems and stop-words."""
    lexical_weight: float = Field(default=0.4, ge=0)
    """Weight of words beside vectors."""
    dense_weight: float = Field(default=0.6, ge=0)
    """Weight of vectors."""
    neighbours: int = Field(default=2, ge=0)
    """Neighbours that lend their words."""
    floor: FloorSettings = FloorSettings()
    """Least that a hit has in common."""
    boosts: BoostsSettings = BoostsSettings()
    """For speakers and dates."""
    chroma: ChromaSettings | None = None
    """Vectors in Chroma."""


class NotebookSettings(SettingsGroup):
    """Settings of a `Notebook`."""

    project: str = Field(default="default", min_length=1)
    """Project whose notes are meant."""
    limit: int = Field(default=1_000, ge=1)
    """Most notes of a level and scope."""
    local_user: str | None = Field(default=None, examples=["ann"])
    """The only user of this process."""
    language: str = "english"
    """Of stems and stop-words."""
    session_lifetime: timedelta | None = Field(default=None, examples=["P30D"])
    """Time after which notes of a session expire, such as `P30D`."""


class SaverSettings(SettingsGroup):
    """Settings of a `TokenMemorySaver`."""

    on_conflict: Literal["branch", "raise"] = "branch"
    """For a run that another one has overtaken."""
    metadata_keys: list[str] = Field(default=[], examples=[["tenant"]])
    """Further keys that go into the metadata."""
    transcript_channel: str | None = "messages"
    """Channel that is the transcript."""
    keep_last: int | None = Field(default=None, ge=1, examples=[100])
    """Newest checkpoints that are kept."""
    older_than: timedelta | None = Field(default=None, examples=["P30D"])
    """Age from which checkpoints go, such as `P30D`."""
    prune_every: int = Field(default=30, ge=1)
    """Checkpoints between two looks at these."""
    on_remove: Literal["keep", "hide"] = "keep"
    """For messages that a thread has no more."""


class MiddlewareSettings(SettingsGroup):
    """Settings of a `TokenMemoryMiddleware`."""

    name: str = Field(default="TokenMemoryMiddleware", min_length=1)
    """Key in the state."""
    automatic: bool = True
    """Compact where it is due."""
    agent_tools: bool | list[str] = False
    """Tools of the agent."""
    limit_output: Literal[True] | str | None = Field(default=None, examples=[True])
    """Limit the model's output to what is left."""
    shared_threads: bool = False
    """Threads have no owner."""

    @field_validator("limit_output", mode="before")
    @classmethod
    def _as_true(cls, value: Any) -> Any:
        return True if isinstance(value, str) and value.lower() == "true" else value
