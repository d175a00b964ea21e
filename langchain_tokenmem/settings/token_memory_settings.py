"""`TokenMemorySettings`: every option of every part, the parts ready-made, the options as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings
from pydantic import BaseModel, PrivateAttr, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from langchain_tokenmem.core.chat_models import ModelLimits
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.notes.notebook import Notebook
from langchain_tokenmem.notes.sql_store import SqlStore
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.recall import Recall
from langchain_tokenmem.settings.groups import MemorySettings, RecallSettings
from langchain_tokenmem.settings.sources import (
    CONFIG,
    DELIMITER,
    FILES,
    PREFIX,
    Setting,
    configuration_error,
    fields_of,
    group_in,
    places_of,
    sources_of,
)
from langchain_tokenmem.storage.database_url import shown_url
from langchain_tokenmem.storage.transcript_store import TranscriptStore

if TYPE_CHECKING:
    from langchain_tokenmem.adapters.agents.middleware import TokenMemoryMiddleware
    from langchain_tokenmem.adapters.checkpoints.saver import TokenMemorySaver


class TokenMemorySettings(BaseSettings, MemorySettings):
    """Every option of every part, and the parts configured by them.

    A value comes from a keyword, else the environment (`TOKENMEM_MODE`, nested with two
    underscores: `TOKENMEM_BUDGET__TARGET`), else a file (`tokenmem.yaml` or `tokenmem.toml` in the
    working directory, or the one that `TOKENMEM_CONFIG` names), else the part's default; the
    default of `mode` is `conversation`. All parts share one store. docs/settings.md lists every
    setting.

    Args:
        values: Settings by name: groups as dicts, such as `budget={"context_window": 8_000}`; a
            number as `budget` is a window, a string as `store` its URL, as `mode` its name.

    Raises:
        ConfigurationError: When a name is unknown or a value is invalid; it names the source.

    Example:
        >>> settings = TokenMemorySettings(budget=8_000, store="sqlite://")
        >>> settings.memory().budget.limit
        7040
        >>> settings.store().sessions()
        []
        >>> settings.close()
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_prefix_target="all",
        env_nested_delimiter=DELIMITER,
        env_ignore_empty=True,
    )

    _places: dict[tuple[str, ...], str] = PrivateAttr(default_factory=dict)
    _store: TranscriptStore | None = PrivateAttr(default=None)
    _recall: Recall | None = PrivateAttr(default=None)

    def __init__(self, **values: Any) -> None:
        sources = sources_of(type(self), values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise configuration_error(type(self), error, sources) from None
        self._places = places_of(sources)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return keywords, the environment and the file, in this order of precedence."""
        given = sources_of(settings_cls, init_settings()).values()
        return tuple(InitSettingsSource(settings_cls, {**one}) for one in given)

    @model_validator(mode="after")
    def _works(self) -> TokenMemorySettings:
        """Make a memory without any I/O: it checks what depends on several settings."""
        options = self._memory_options()
        TokenMemory(**{**options, "budget": self.budget.made()})
        return self

    def store(self) -> TranscriptStore:
        """Return the store, which all parts share."""
        if self._store is None:
            self._store = TranscriptStore(**self.store_settings.given())
        return self._store

    def recall(self, *, embeddings: Embeddings | None = None, **keywords: Any) -> Recall:
        """Return the recall; without keywords always the same object.

        Args:
            embeddings: Embeddings object for the Chroma of the settings.
            keywords: Options of `Recall`, such as `chroma` or `count_tokens`; they take
                precedence over the settings.

        Raises:
            ConfigurationError: When it is not clear where Chroma is, or with which embeddings.
        """
        if keywords or embeddings is not None:
            return Recall(self.store(), **{**self._recall_options(embeddings), **keywords})
        if self._recall is None:
            self._recall = Recall(self.store(), **self._recall_options())
        return self._recall

    def notebook(self, **keywords: Any) -> Notebook:
        """Return the notebook; `store=` keeps notes elsewhere than in the database.

        Args:
            keywords: Options of `Notebook`.
        """
        given = {} if self.notes is None else self.notes.given()
        if "store" not in keywords:
            keywords["store"] = SqlStore(self.store())
        return Notebook(**{**given, **keywords})

    def memory(self, model: Any = None, **keywords: Any) -> TokenMemory:
        """Return a memory.

        Args:
            model: The chat model that is called, or its name; its window is used if
                `budget.context_window` is not given. Without both the memory uses the window of
                each model that is called.
            keywords: Options of `TokenMemory`, objects among them, such as `callbacks`, `counter`,
                `before_store` or a chat model as `summarizer`. They take precedence.

        Raises:
            ConfigurationError: When the window of a name is unknown, or an option is invalid.
        """
        options = {**self._memory_options(), **keywords}
        called = self.budget.model if model is None else model
        is_open = called is None and self.budget.context_window is None
        if "budget" not in keywords:
            options["budget"] = self.budget.made(called, self._limits())
        if "summarizer" not in keywords:
            options["summarizer"] = self.summarizer
        if "recall" not in keywords and self.recall_settings is not None:
            options["recall"] = self.recall()
        if "notes" not in keywords and self.notes is not None:
            options["notes"] = self.notebook()
        memory = TokenMemory(**options)
        return memory.following_model() if is_open and "budget" not in keywords else memory

    def middleware(
        self, model: Any = None, *, memory: TokenMemory | None = None, **keywords: Any
    ) -> TokenMemoryMiddleware:
        """Return a middleware for `create_agent`.

        Args:
            model: The agent's model, or its name: see `memory`.
            memory: A memory instead of `memory(model)`.
            keywords: Options of `TokenMemoryMiddleware`; they take precedence.
        """
        from langchain_tokenmem.adapters.agents.middleware import (  # noqa: PLC0415  # a second
            TokenMemoryMiddleware,
        )

        options = {**self.middleware_settings.given(), **keywords}
        return TokenMemoryMiddleware(memory or self.memory(model), **options)

    def saver(self, **keywords: Any) -> TokenMemorySaver:
        """Return a checkpointer on the store.

        Args:
            keywords: Options of `TokenMemorySaver`, such as `serde`; they take precedence.
        """
        from langchain_tokenmem.adapters.checkpoints.saver import (  # noqa: PLC0415  # LangGraph
            TokenMemorySaver,
        )

        return TokenMemorySaver(self.store(), **{**self.saver_settings.given(), **keywords})

    def close(self) -> None:
        """Close the store, and the recall with it, if they were opened."""
        if self._recall is not None:
            self._recall.close()
        if self._store is not None:
            self._store.close()
        self._recall = self._store = None

    def places(self) -> dict[tuple[str, ...], str]:
        """Return the source of each given value, by the keys of its setting."""
        return dict(self._places)

    def _limits(self) -> ModelLimits:
        return {
            name: {key: value for key, value in limits.given().items() if value is not None}
            for name, limits in self.models.items()
        }

    def _memory_options(self) -> dict[str, Any]:
        """Return the options of a memory that need no store and no model."""
        return {
            "models": self._limits(),
            "trigger": self.trigger and self.trigger.made(),
            "request": self.request.made(),
            "background": False if self.background is None else self.background.made(),
            "max_wait_s": self.max_wait_s,
            "turn_memory": self.turn_memory.made(),
            "mode": self.mode and self.mode.made(),
        }

    def _recall_options(self, embeddings: Embeddings | None = None) -> dict[str, Any]:
        settings = self.recall_settings or RecallSettings()
        options = settings.given()
        if (chroma := settings.chroma) is not None:
            named = embeddings or chroma.embeddings
            options["chroma"] = ChromaIndex(**{**chroma.given(), "embeddings": named})
        return options


HIDDEN = "***"

_HEAD = (
    f"# Settings of langchain-tokenmem: {FILES[0]} in the working directory, or the file that the",
    f"# variable {CONFIG} names. Settings that are commented out have their default; without one,",
    "# an example is shown. To set one, remove the `# ` before it, and before its group.",
    "",
)


def example_file() -> str:
    """Return a file of settings in YAML, every one commented out, with its description."""
    return "\n".join([*_HEAD, *_example(TokenMemorySettings, "# ")]) + "\n"


def _example(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in fields_of(model).items():
        group = group_in(field.annotation)
        if group is None:
            default = Setting((name,), field).default
            value = _text(field.examples[0] if field.examples else default)
            yield f"{indent}{name}: {value}  # {field.description}"
        else:
            yield f"{indent}{name}:  # {field.description}"
            yield from _example(group, f"{indent}  ")


def in_force(settings: TokenMemorySettings) -> list[tuple[str, str, str]]:
    """Return name, value and place of every setting; secrets are hidden.

    Settings of a group that is off are left out: it has one line.
    """
    return list(_in_force(settings, (), settings.places()))


def _in_force(
    group: BaseModel, path: tuple[str, ...], places: Mapping[tuple[str, ...], str]
) -> Iterator[tuple[str, str, str]]:
    for attribute, field in type(group).model_fields.items():
        here = (*path, field.alias or attribute)
        value = getattr(group, attribute)
        if isinstance(value, BaseModel):
            yield from _in_force(value, here, places)
        else:
            found = {place for one, place in places.items() if one[: len(here)] == here}
            shown = _shown(field, here, value)
            yield ".".join(here), shown, ", ".join(sorted(found)) or "default"


def _shown(field: FieldInfo, path: tuple[str, ...], value: Any) -> str:
    if value is None:
        return "none"
    if path == ("store", "url"):
        return shown_url(value)
    return _text(value) if field.repr else HIDDEN


def _text(value: Any) -> str:
    """Return a value as it is written in a YAML file."""
    if isinstance(value, timedelta):
        return TypeAdapter(timedelta).dump_json(value).decode().strip('"')
    if isinstance(value, dict):
        value = {
            key: one.model_dump(exclude_none=True) if isinstance(one, BaseModel) else one
            for key, one in value.items()
        }
    is_plain = isinstance(value, str) and value.replace("-", "").replace("_", "").isalnum()
    return value if is_plain else json.dumps(value, ensure_ascii=False)
