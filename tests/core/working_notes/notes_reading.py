"""Reading of made-up conversations, for the tests of sections."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem.core.messages import groups
from langchain_tokenmem.core.working_notes.mode_profiles import CODE, ModeProfile, new_modes_state
from langchain_tokenmem.core.working_notes.reading import read_groups
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from langchain_tokenmem.state import ModesState, NoteItem
from tests.fakes import called

_IDS = count(1)


def user(text: str) -> HumanMessage:
    return HumanMessage(text, id=f"h{next(_IDS)}")


def assistant(text: str) -> AIMessage:
    return AIMessage(text, id=f"a{next(_IDS)}")


def call(name: str, args: dict[str, Any], result: str = "ok", **kwargs: Any) -> list[BaseMessage]:
    """Return a call with its result."""
    return called(next(_IDS), name, args, result, **kwargs)


def bash(command: str, result: str = "ok", code: int = 0) -> list[BaseMessage]:
    return call("bash", {"command": command}, result, artifact={"exit_code": code})


def read(
    messages: Sequence[BaseMessage],
    state: ModesState | None = None,
    *,
    limits: ModeProfile = CODE,
    root: str | None = None,
) -> ModesState:
    return read_groups(
        state or new_modes_state("code"),
        [group.messages for group in groups(messages)],
        TurnMemorySettings(project_root=root),
        limits.limits,
    )


def items(state: ModesState, section: str) -> list[NoteItem]:
    return state["sections"].get(section, [])


def texts(state: ModesState, section: str) -> list[str]:
    return [one["text"] for one in items(state, section)]
