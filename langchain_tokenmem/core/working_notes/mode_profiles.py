"""`ModeProfile`: the sections that a session is watched for, and the settings of working notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import NamedTuple

from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import MemoryState, ModesState


class Section(NamedTuple):
    """A section of working notes.

    Attributes:
        name: Its name.
        limit: Maximum items that are kept; None for one, or as many as a message lists.
        title: Its title in a request; default: its name.
        is_list: Whether each item has its own line.
        is_lasting: Whether it is shown regardless of when it changed. A resolved error is no item.
    """

    name: str
    limit: int | None = None
    title: str = ""
    is_list: bool = False
    is_lasting: bool = False


SECTIONS: Mapping[str, Section] = {
    one.name: one
    for one in (
        Section("topics", 10),
        Section("entities", 20),
        Section("facts", 20, "About the user", is_lasting=True),
        Section("task"),
        Section("progress", 10),
        Section("files", 20),
        Section("commands", 6, is_list=True),
        Section("errors", 5, is_list=True, is_lasting=True),
        Section("objective", is_lasting=True),
        Section("subgoals", 10, "Sub-goals"),
        Section("phase"),
        Section("constraints", 20, is_lasting=True),
        Section("decisions", 20, is_list=True, is_lasting=True),
        Section("assumptions", 10),
    )
}
"""All sections by name; those of every mode are read, regardless of the current mode."""

LIMITS: Mapping[str, int] = MappingProxyType(
    {name: one.limit for name, one in SECTIONS.items() if one.limit} | {"alternatives": 10}
)
"""Maximum items that are kept, by section; `alternatives` are the rejected ones of a decision. The
numbers of decisions continue."""


@dataclass(frozen=True)
class ModeProfile:
    """A mode of working notes: what is shown of a session, and how much of it is kept.

    Attributes:
        name: Name of the mode; it is in the state and in the request.
        window: Minimum messages that a summary by hand leaves verbatim, if the budget allows.
        sections: Names of the sections that are shown, in order; from `SECTIONS`.
        summarization: Whether older messages are summarized.
        recall_k: Maximum messages that recall returns.
        limits: Maximum items of a section, by its name; else those of `LIMITS`.
        share: Maximum part of the budget's `shares.notes` for the notes, above 0 and at most 1.
        prefix_max_stale_turns: Turns for which a section is shown after its last change.
        system_text: Text of the mode after the application's system text; may be empty.
        summary_sections: Headings of a summary in this mode; empty for those of the prompts.
        tools: Names of the tools that the agent is offered in this mode; empty for all.

    Raises:
        ConfigurationError: When a value is invalid; the message names it.

    Example:
        >>> ModeProfile("support", window=20, sections=("facts", "constraints")).limits["facts"]
        20
    """

    name: str
    window: int
    sections: tuple[str, ...]
    summarization: bool = True
    recall_k: int = 3
    limits: Mapping[str, int] = field(default_factory=dict)
    share: float = 1.0
    prefix_max_stale_turns: int = 3
    system_text: str = ""
    summary_sections: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.replace("-", "_").isidentifier():
            raise ConfigurationError(
                f"ModeProfile(name={self.name!r}): a name is a word of letters, digits, - and _."
            )
        limits = checked(self.limits, dict, "limits", 'ModeProfile(..., limits={"files": 20})')
        numbers = {one.name: getattr(self, one.name) for one in fields(self) if one.type == "int"}
        for name, value in {**numbers, **limits}.items():
            if type(value) is not int or value < 0:
                raise self._refusal(f"{name}={value!r}", "it must be a whole number, 0 or more")
        if type(self.share) not in {int, float} or not 0 < self.share <= 1:
            raise self._refusal(
                f"share={self.share!r}", "it must be a fraction above 0 and at most 1"
            )
        for texts in ("sections", "summary_sections", "tools"):
            given = getattr(self, texts)
            is_several = isinstance(given, Collection) and not isinstance(given, str)
            if not is_several or not all(isinstance(one, str) for one in given):
                raise self._refusal(f"{texts}={given!r}", "it must be a tuple of strings")
            object.__setattr__(self, texts, tuple(given))
        for what, names, known in (("limit", limits, LIMITS), ("section", self.sections, SECTIONS)):
            if unknown := ", ".join(repr(name) for name in names if name not in known):
                there = f"there is no {what} {unknown}; there are {', '.join(known)}"
                raise self._refusal(f"{what}s=...", there)
        object.__setattr__(self, "limits", {**LIMITS, **limits})

    def _refusal(self, argument: str, reason: str) -> ConfigurationError:
        return ConfigurationError(f"ModeProfile({self.name!r}, {argument}): {reason}.")


CONVERSATION = ModeProfile(
    "conversation",
    window=25,
    sections=("topics", "entities", "facts"),
    summary_sections=("About the user", "Preferences", "Decisions", "Open questions"),
)
"""Conversation: topics, names, and facts about the user."""

CODE = ModeProfile(
    "code",
    window=30,
    sections=("task", "progress", "files", "commands", "errors"),
    # Beyond that a fold costs more than the paths and commands bring: benchmarks/price.py.
    share=0.5,
    summary_sections=(
        "Decisions",
        "Files",
        "Errors and fixes",
        "Commands",
        "State",
        "Next steps",
    ),
)
"""Work on files: the task, its progress, files touched, recent errors."""

REASONING = ModeProfile(
    "reasoning",
    window=30,
    sections=("objective", "subgoals", "phase", "constraints", "decisions", "assumptions"),
    summary_sections=("Decisions", "Open questions", "State", "Next steps"),
)
"""Thinking something through: the goal, constraints, numbered decisions, assumptions."""

MODES: Mapping[str, ModeProfile] = MappingProxyType(
    {profile.name: profile for profile in (CONVERSATION, CODE, REASONING)}
)
"""The built-in modes."""


def mode_named(name: str, *, own: Iterable[ModeProfile] = ()) -> ModeProfile:
    """Return the mode with that name.

    Args:
        name: The name.
        own: Profiles of the application, which are also searched.

    Raises:
        ConfigurationError: When there is none; the message lists them.

    Example:
        >>> mode_named("code").limits["errors"]
        5
    """
    known = {**MODES, **{profile.name: profile for profile in own}}
    profile = known.get(name) if isinstance(name, str) else None
    if profile is None:
        raise ConfigurationError(
            f"There is no mode {name!r}; there are {', '.join(map(repr, known))}, "
            "and ModeProfile(...) makes one of your own."
        )
    return profile


def new_modes_state(mode: str) -> ModesState:
    """Return the state of a session of which nothing was read yet.

    Args:
        mode: Name of the current mode, or empty.
    """
    return {
        "mode": mode,
        "turn": 0,
        "read_to": [],
        "sections": {},
        "changed": {},
        "next_number": 1,
        "names": {},
    }


def mode_in(state: MemoryState) -> str:
    """Return the name of the mode at the last call, or an empty text."""
    return state["modes"]["mode"] if "modes" in state else ""


@dataclass(frozen=True)
class AnnotationSettings:
    """Settings of what a request shows besides the messages: turn memory and working notes.

    Attributes:
        turns: Which turns show their turn memory.
        mode: Default mode of sessions, or None.
        modes: Further profiles of the application, to which a session can be switched.
        modes_on: Whether a session may have a mode at all.
    """

    turns: TurnMemorySettings = field(default_factory=TurnMemorySettings)
    mode: ModeProfile | None = None
    modes: Sequence[ModeProfile] = ()
    modes_on: bool = True

    def __post_init__(self) -> None:
        for profile in self.modes:
            checked(profile, ModeProfile, "modes", 'modes=[ModeProfile("support")]')

    def mode_named(self, name: str) -> ModeProfile | None:
        """Return the mode with that name; None for an empty name.

        Raises:
            ConfigurationError: When there is none; the message lists them.
        """
        own = [*self.modes, *([self.mode] if self.mode else [])]
        return None if name == "" else mode_named(name, own=own)

    def mode_of(self, modes: ModesState | None, asked: str | None = None) -> ModeProfile | None:
        """Return the current mode of a session, or None.

        Args:
            modes: What the session's state has of modes.
            asked: Name of the mode that a call asks for, empty for no mode; None if it asks for
                nothing: then the session's own mode holds, or else that of the memory.

        Raises:
            ConfigurationError: When there is no mode with that name.
        """
        if not self.modes_on:
            return None
        if asked is not None:
            return self.mode_named(asked)
        chosen = modes.get("chosen") if modes else None
        if chosen is None:
            return self.mode
        try:
            return self.mode_named(chosen)
        except ConfigurationError:  # an earlier profile that the application no longer has
            return self.mode
