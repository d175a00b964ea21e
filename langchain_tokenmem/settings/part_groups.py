"""The settings of the store, recall, notes, checkpointer and middleware, as groups of fields."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from langchain_tokenmem.settings.groups import SettingsGroup
from langchain_tokenmem.storage.expiry_policy import ExpiryPolicy


class StoreSettings(SettingsGroup):
    """Settings of a `TranscriptStore`."""

    url: str = Field(
        default="sqlite:///tokenmem.db",
        description="URL of the database, or path of a SQLite file.",
        repr=False,
        min_length=1,
    )
    pool_size: int = Field(default=8, description="Most connections at a time.", ge=1)
    inactive_for: timedelta | None = Field(
        default=None,
        description="Age from which unused sessions expire, such as `P30D`.",
        examples=["P30D"],
    )
    expire_every: timedelta | None = Field(
        default=None, description="Time between two looks at these.", examples=["P1D"]
    )

    @model_validator(mode="after")
    def _works(self) -> StoreSettings:
        ExpiryPolicy(inactive_for=self.inactive_for, expire_every=self.expire_every)
        return self


class FloorSettings(SettingsGroup):
    """Settings of a recall's `Floor`."""

    terms: int = Field(default=2, description="Terms of the question in the best message.", ge=0)
    share: float = Field(default=0.2, description="Share of the question's weight in it.", ge=0)
    strong_share: float = Field(
        default=0.22, description="The share from which one term is enough.", ge=0
    )
    strict_share: float = Field(default=0.24, description="The same where there are vectors.", ge=0)
    cosine: float | None = Field(
        default=0.3, description="Cosine from which meaning alone is enough."
    )
    each_share: float = Field(default=0.01, description="Share that every message has.", ge=0)
    each_cosine: float = Field(default=0.1, description="Cosine of a message without such words.")


class BoostsSettings(SettingsGroup):
    """Settings of a recall's `Boosts`."""

    speaker: float = Field(
        default=0.5, description="Added for the speaker whom the question names.", ge=0
    )
    date: float = Field(default=0.3, description="Added for a date that the question names.", ge=0)


class ChromaSettings(SettingsGroup):
    """Settings of a `ChromaIndex`."""

    path: str | None = Field(
        default=None, description="Folder of an embedded Chroma.", examples=["./chroma"]
    )
    embeddings: str | None = Field(
        default=None, description="Name of the embedding model.", examples=["chroma-default"]
    )
    host: str | None = Field(default=None, description="Host of a server.", examples=["localhost"])
    port: int = Field(default=8000, description="Its port.", ge=1, le=65_535)
    ssl: bool = Field(default=False, description="It speaks TLS.")
    headers: dict[str, str] | None = Field(
        default=None,
        description="Sent to it.",
        repr=False,
        examples=[{"Authorization": "Bearer x"}],
    )
    cloud: dict[str, str] | None = Field(
        default=None,
        description="Chroma Cloud.",
        repr=False,
        examples=[{"tenant": "t", "api_key": "k"}],
    )
    collection: str = Field(default="tokenmem", description="First part of the collections' names.")
    model: str | None = Field(
        default=None, description="Name of the embeddings in messages.", examples=["minilm"]
    )
    timeout_s: float = Field(default=10.0, description="Seconds for a request.", gt=0)


class RecallSettings(SettingsGroup):
    """Settings of a `Recall`."""

    embeddings: str | None = Field(
        default=None,
        description="Vectors without Chroma: `provider:model`, or `auto`.",
        examples=["openai:text-embedding-3-small"],
    )
    on_model_change: Literal["refuse", "rebuild"] = Field(
        default="refuse", description="For vectors of another embedding model."
    )
    language: str = Field(default="english", description="Of stems and stop-words.")
    lexical_weight: float = Field(default=0.4, description="Weight of words beside vectors.", ge=0)
    dense_weight: float = Field(default=0.6, description="Weight of vectors.", ge=0)
    neighbours: int = Field(default=2, description="Neighbours that lend their words.", ge=0)
    floor: FloorSettings = Field(
        default=FloorSettings(), description="Least that a hit has in common."
    )
    boosts: BoostsSettings = Field(default=BoostsSettings(), description="For speakers and dates.")
    chroma: ChromaSettings | None = Field(default=None, description="Vectors in Chroma.")


class NotebookSettings(SettingsGroup):
    """Settings of a `Notebook`."""

    project: str = Field(
        default="default", description="Project whose notes are meant.", min_length=1
    )
    limit: int = Field(default=1_000, description="Most notes of a level and scope.", ge=1)
    local_user: str | None = Field(
        default=None, description="The only user of this process.", examples=["ann"]
    )
    language: str = Field(default="english", description="Of stems and stop-words.")


class SaverSettings(SettingsGroup):
    """Settings of a `TokenMemorySaver`."""

    on_conflict: Literal["branch", "raise"] = Field(
        default="branch", description="For a run that another one has overtaken."
    )
    key: str | None = Field(
        default=None,
        description="Secret that seals every row.",
        repr=False,
        examples=["a secret of 32"],
    )
    metadata_keys: list[str] = Field(
        default=[], description="Further keys that go into the metadata.", examples=[["tenant"]]
    )
    transcript_channel: str | None = Field(
        default="messages", description="Channel that is the transcript."
    )
    cache_bytes: int = Field(
        default=256_000_000, description="Most memory of decoded messages.", ge=1
    )
    keep_last: int | None = Field(
        default=None, description="Newest checkpoints that are kept.", ge=1, examples=[100]
    )
    older_than: timedelta | None = Field(
        default=None,
        description="Age from which checkpoints go, such as `P30D`.",
        examples=["P30D"],
    )
    prune_every: int = Field(
        default=30, description="Checkpoints between two looks at these.", ge=1
    )
    on_remove: Literal["keep", "hide"] = Field(
        default="keep", description="For messages that a thread has no more."
    )


class MiddlewareSettings(SettingsGroup):
    """Settings of a `TokenMemoryMiddleware`."""

    name: str = Field(
        default="TokenMemoryMiddleware", description="Key in the state.", min_length=1
    )
    automatic: bool = Field(default=True, description="Compact where it is due.")
    agent_tools: bool | list[str] = Field(default=False, description="Tools of the agent.")
    limit_output: Literal[True] | str | None = Field(
        default=None, description="Limit the model's output to what is left.", examples=[True]
    )
    shared_threads: bool = Field(default=False, description="Threads have no owner.")

    @field_validator("limit_output", mode="before")
    @classmethod
    def _as_true(cls, value: Any) -> Any:
        return True if isinstance(value, str) and value.lower() == "true" else value
