"""Reading of made-up conversations, for the tests of sections."""

from itertools import count

from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem.core.messages import groups
from langchain_tokenmem.core.working_notes.mode_profiles import CODE, new_modes_state
from langchain_tokenmem.core.working_notes.reading import read_groups
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from tests.fakes import called

_IDS = count(1)


def user(text):
    return HumanMessage(text, id=f"h{next(_IDS)}")


def assistant(text):
    return AIMessage(text, id=f"a{next(_IDS)}")


def call(name, args, result="ok", **kwargs):
    """Return a call with its result."""
    return called(next(_IDS), name, args, result, **kwargs)


def bash(command, result="ok", code=0):
    return call("bash", {"command": command}, result, artifact={"exit_code": code})


def read(messages, state=None, *, limits=CODE):
    """Return the notes of a conversation; a state has read some of its messages."""
    found = [group.messages for group in groups(messages)]
    return read_groups(state or new_modes_state("code"), found, TurnMemorySettings(), limits.limits)


def heard(*said):
    """Return the notes of a conversation in which only the user speaks."""
    return read([*map(user, said)])


def items(state, section):
    return state["sections"].get(section, [])


def texts(state, section):
    return [one["text"] for one in items(state, section)]
