"""Words that people bring from elsewhere, and the nearest setting to a word that is none."""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType

from pydantic import BaseModel

from langchain_tokenmem.settings.schema import Path, field_at, settings_in, variable_of

ALIASES = MappingProxyType(
    {
        "warning_threshold": ("budget", "warn_at"),
        "auto_compact_threshold": ("budget", "compact_at"),
        "summarization_ratio": ("budget", "target"),
        "tool_result_max_chars": ("budget", "result_chars"),
        "max_context_tokens": ("budget", "context_window"),
        "token_limit": ("budget", "context_window"),
        "token_threshold": ("trigger", "tokens"),
        "max_tokens_before_summary": ("trigger", "tokens"),
        "enable_auto_summary": ("trigger",),
        "auto_inject": ("inject_notes",),
        "summarizer_model": ("summarizer",),
        "summary_model": ("summarizer",),
        "working_memory_size": ("max_tail_messages",),
        "vector_recall_k": ("recall_k",),
    }
)
"""Other names of settings; they stand at the top of a file, in the setting's own group, or, of a
mode's settings, in `mode`."""

_TURNS = (
    "A turn has two messages and more. max_tail_messages limits the messages after the summary, "
    "for example to twice the number of turns."
)
_OBJECT = "It is an object, which no file can hold: settings.{part}({name}=...) takes it."

EXPLAINED = MappingProxyType(
    {
        **dict.fromkeys(("turn_limit", "max_turns", "turns"), _TURNS),
        **{
            name: _OBJECT.format(part="memory", name=name)
            for name in ("counter", "callbacks", "before_store", "now")
        },
        **{name: _OBJECT.format(part="saver", name=name) for name in ("serde", "allowed_types")},
        "count_tokens": _OBJECT.format(part="recall", name="count_tokens"),
        "session_inactivity_days": "store.inactive_for takes a duration, for example P30D.",
        "temperature": "The model of the summaries has it: settings.memory(summarizer=model).",
    }
)
"""Words for which there is no setting, with what to write instead."""


def meant(model: type[BaseModel], path: Path) -> Path:
    """Return the path of the setting that a path names, by its own name or by another one."""
    alias = ALIASES.get(path[-1])
    is_at_home = alias is not None and path[:-1] in {(), ("mode",), alias[:-1]}
    if alias is not None and is_at_home and field_at(model, path)[0] is None:
        return alias
    return path


def advice(model: type[BaseModel], path: Path, *, as_variable: bool) -> str:
    """Return the nearest setting to a path that names none, as a question; or what to do instead.

    Args:
        model: The settings.
        path: The path.
        as_variable: Whether names of environment variables are shown.
    """
    if path[-1] in EXPLAINED:
        return f" {EXPLAINED[path[-1]]}"
    known = {setting.name: setting.path for setting in settings_in(model)}
    groups = {".".join(path[:depth]): path[:depth] for path in known.values() for depth in (1, 2)}
    words = {**dict(ALIASES), **{path[-1]: path for path in reversed(known.values())}}
    names = {**words, **groups, **known}
    spelled = (".".join(path), path[-1])
    near = (get_close_matches(word, names, n=1, cutoff=0.7) for word in spelled)
    found = next((match[0] for match in near if match), None)
    if found is None:
        return " `tokenmem config --example` prints all settings."
    shown = names[found]
    return f" Did you mean {variable_of(shown) if as_variable else '.'.join(shown)}?"
