"""LangGraph's serializer, restricted to allowed types and imported types of states.

By default LangGraph's own savers import any module that a row names, and call what they find
there. Here a row cannot cause an import: a type is loaded if it was allowed, or if it is a kind of
type that states are made of and its module is already imported, as it is when a graph is built.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime
from enum import Enum
from typing import Any

import ormsgpack
from langchain_core import agents, outputs, prompt_values
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents.base import Blob, Document
from langchain_core.messages import BaseMessage, messages_from_dict
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.jsonplus import (
    EXT_DELTA_SNAPSHOT,
    JsonPlusSerializer,
    _create_msgpack_ext_hook,
    _msgpack_ext_hook_to_json,
)
from pydantic import BaseModel

from langchain_tokenmem.errors import ConfigurationError

TypeName = tuple[str, ...]
"""Module and name of a type."""

_LANGCHAIN_CORE: tuple[type, ...] = (
    *(agents.AgentAction, agents.AgentActionMessageLog, agents.AgentFinish, agents.AgentStep),
    *(Blob, Document, InMemoryChatMessageHistory),
    *(prompt_values.ChatPromptValue, prompt_values.ChatPromptValueConcrete),
    *(prompt_values.ImagePromptValue, prompt_values.StringPromptValue),
    *(outputs.Generation, outputs.GenerationChunk, outputs.LLMResult, outputs.RunInfo),
    *(outputs.ChatGeneration, outputs.ChatGenerationChunk, outputs.ChatResult),
)
"""Values that chains and agents put into a state; LangGraph itself allows messages."""


class StateSerializer(JsonPlusSerializer):
    """LangGraph's serializer, strict except for the types that a state is made of.

    It loads LangGraph's safe types, those of langchain-core, `allowed_types`, and, unless
    `LANGGRAPH_STRICT_MSGPACK` is set, Pydantic models, dataclasses, enumerations and named tuples
    defined at the top level of a module that is already imported.

    Args:
        allowed_types: Further types, or their modules and names.

    Raises:
        ConfigurationError: When a type cannot be found by its name.
    """

    def __init__(self, allowed_types: Iterable[type | TypeName] = ()) -> None:
        allowed = list(allowed_types)
        for one in allowed:
            if isinstance(one, type) and "." in one.__qualname__:
                raise ConfigurationError(f"allowed_types: {_hidden(one.__qualname__)}.")
        super().__init__(allowed_msgpack_modules=[*_LANGCHAIN_CORE, *allowed])
        if not _msgpack.STRICT_MSGPACK_ENABLED:
            names = self._allowed_msgpack_modules
            assert isinstance(names, set)  # noqa: S101  # for mypy: it was given a list
            self._unpack_ext_hook = _create_msgpack_ext_hook(_AllowedNames(names))

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[TypeName | type]) -> StateSerializer:
        """Return a copy that loads more types; LangGraph passes a graph's types in strict mode."""
        names = self._allowed_msgpack_modules
        assert isinstance(names, set)  # noqa: S101
        return StateSerializer([*names, *extra_allowlist])


class LookingSerializer(StateSerializer):
    """Reads messages as such, and every other object of a state as plain data.

    For a process that only looks at threads: the application's modules are not imported there, and
    an agent with `response_format=Answer` has an `Answer` in each state.
    """

    def __init__(self) -> None:
        super().__init__()
        load = self._unpack_ext_hook

        def read(code: int, data: bytes) -> Any:
            if code == EXT_DELTA_SNAPSHOT:
                return load(code, data)
            found = ormsgpack.unpackb(data, ext_hook=read, option=ormsgpack.OPT_NON_STR_KEYS)
            return _message_in(found[2]) or _msgpack_ext_hook_to_json(code, data)

        self._unpack_ext_hook = read


def _message_in(fields: Any) -> BaseMessage | None:
    """Return the message with these fields, also of a subclass that the application defines."""
    if isinstance(fields, dict) and "content" in fields:
        with suppress(ValueError):
            return messages_from_dict([{"type": fields.get("type"), "data": fields}])[0]
    return None


class _AllowedNames(set[TypeName]):
    """The allowed names, and those of imported types of states."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (
            isinstance(name, tuple) and is_state_type(imported(*name))
        )


def imported(module: object, name: object) -> Any:
    """Return the object with a name that is defined at the top level of a module.

    None if the module is not imported: nothing is imported, and no code of the module runs.
    """
    if not (isinstance(module, str) and isinstance(name, str)) or module not in sys.modules:
        return None
    try:
        names = object.__getattribute__(sys.modules[module], "__dict__")
    except AttributeError:
        return None
    found = names.get(name)
    is_its_own = isinstance(found, type) and (found.__module__, found.__qualname__) == (
        module,
        name,
    )
    return found if is_its_own else None


def is_state_type(found: Any) -> bool:
    """Return whether an object is a type that states are made of: data with named fields."""
    if not isinstance(found, type):
        return False
    is_named_tuple = issubclass(found, tuple) and hasattr(found, "_fields")
    model_of_pydantic_1 = imported("pydantic.v1.main", "BaseModel") or BaseModel
    is_named = is_named_tuple or issubclass(found, (BaseModel, model_of_pydantic_1, Enum))
    return is_named or dataclasses.is_dataclass(found)


def advice(refused: Collection[str]) -> str:
    """Return the advice for the first of the refused types, given as `module:Class`."""
    module, _, name = min(refused).partition(":")
    found = imported(module, name)
    if found is None:
        return _hidden(name)
    if issubclass(found, datetime):
        return (
            f"LangGraph's serializer reads no subclass of datetime; keep "
            f"datetime.fromisoformat(value.isoformat()) in place of a {name}"
        )
    return (
        f"give it to the saver, TokenMemorySaver(store, allowed_types=[{name}]), or keep plain "
        f"data in the state"
    )


def _hidden(name: str) -> str:
    return (
        f"{name} is defined inside a function or another class, where no later process finds it by "
        f"name; define it at the top level of a module, or keep plain data in the state"
    )
