"""Sections of work on files: current task, progress, files touched, recent errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from langchain_tokenmem.core.facts.sentences import any_of, one_line
from langchain_tokenmem.core.facts.tool_results import (
    CallKind,
    error_lines,
    failure_of_call,
    kind_of_command,
    path_of,
)
from langchain_tokenmem.core.todos import DONE, todos_in
from langchain_tokenmem.core.working_notes.notes_draft import NotesDraft, find, newest
from langchain_tokenmem.core.working_notes.tool_kinds import ToolEffect, plain_path
from langchain_tokenmem.core.working_notes.word_rules import MAX_ITEM, reported_problem, request_in
from langchain_tokenmem.notes_state import NoteItem

_FILE = re.compile(
    rf"(?<![\w/.:@~-])(?:~?/|\./)?(?:[\w@+-][\w.@+-]{{0,80}}/){{0,12}}[\w+-][\w.+-]{{0,80}}"
    rf"\.{any_of('extension')}(?![\w(/-])"
)
# "Node.js" is a product, `process.env` and `self.db` are attributes.
_NO_FILE = re.compile(r"[A-Z]\w*\.js|[\w.]+\.(?:env|db|lock|c|h)", re.ASCII)
_COMMAND_PARTS = re.compile(r"&&|\|\||[;|\n]")
_WRITTEN = re.compile(r"(?<![0-9&<>])>{1,2}\s*$")
_VERBS = {CallKind.READ: "read", CallKind.SEARCH: "read", CallKind.EDIT: "changed"}
_STRENGTH = {None: 0, "read": 1, "ran": 2, "changed": 3}
_NAMED_FILES = 10
"""Files that one message names in words and that are kept."""
MAX_COMMAND = 120
"""Characters of the longest command that is kept; longer ones are scripts, rarely run again."""
_MAX_CALL, _MAX_KEY = 120, 200
"""Characters of a call, and of the key by which it is known."""
_READ = 6_000
_PASTED_ERRORS = 3


def read_task(draft: NotesDraft, sentences: Sequence[str], source: str) -> str | None:
    """Read the task from a message of the user; a new one clears the progress.

    Returns:
        The new task; None where the message asks for nothing, or for the same again.
    """
    task = request_in(sentences)
    if task is None and not draft.items("task"):
        task = reported_problem(sentences)
    if task is None or [task] == [one["text"] for one in draft.items("task")]:
        return None
    draft.set_items("task", [draft.item(task, source)])
    draft.set_items("progress", [])
    return task


def read_named_files(draft: NotesDraft, text: str, source: str, root: str | None) -> None:
    """Add the files that a message names; those that were touched stay where they are."""
    named = dict.fromkeys(match[0] for match in _FILE.finditer(text[:_READ]))
    for name in [one for one in named if not _NO_FILE.fullmatch(one)][:_NAMED_FILES]:
        path = plain_path(name, root)
        if path and path not in [one["text"] for one in draft.items("files")]:
            _add_file(draft, draft.item(path, source), None)


def read_pasted_errors(draft: NotesDraft, text: str, source: str) -> None:
    """Add the error lines that a user pastes, the last ones of a message."""
    for line in list(dict.fromkeys(error_lines(text[-_READ:])))[-_PASTED_ERRORS:]:
        draft.add("errors", draft.item(line, source))


def read_call(
    draft: NotesDraft, effect: ToolEffect, sources: tuple[str, str], root: str | None
) -> None:
    """Read one call with its result: files, errors, progress.

    Args:
        draft: The sections.
        effect: The effect of the call.
        sources: References of the message that made the call, and of its result.
        root: Folder that paths are relative to.
    """
    failure = failure_of_call(effect.result, effect.command, effect.exit_code)
    told, key = _call_name(effect)
    if failure is None or effect.command:
        _touch_files(draft, effect, sources[0], root, failed=failure is not None)
    if failure is not None:
        item: NoteItem = {**draft.item(f"{told} → {failure}", sources[1], "tool"), "key": key}
        rest = [one for one in draft.items("errors") if one.get("key") != key]
        draft.set_items("errors", newest([*rest, item], draft.limits["errors"]))
        return
    _add_command(draft, effect, sources[0])
    _resolve(draft, key, told, sources[1])
    _read_todos(draft, effect.args, sources[0])


def _call_name(effect: ToolEffect) -> tuple[str, str]:
    """Return a call on one line, and the key by which it is known when it is made again.

    A command is known by its first part before a pipe, a call about a file by tool and file, any
    other by tool and arguments.
    """
    if effect.command:
        key = effect.command.partition(" | ")[0].replace("2>&1", "").strip()
        return one_line(effect.command, _MAX_CALL), f"{effect.tool}: {key}"[:_MAX_KEY]
    path = path_of(effect.args)
    about = path or json.dumps(effect.args, ensure_ascii=False, default=str, sort_keys=True)
    told = one_line(f"{effect.tool} {about}" if effect.args else effect.tool, _MAX_CALL)
    return told, one_line(f"{effect.tool}: {about}", _MAX_KEY)


def _add_command(draft: NotesDraft, effect: ToolEffect, source: str) -> None:
    """Put a command at the end: short ones are run again; those of several lines are scripts."""
    command = effect.command
    is_script = any(isinstance(one, str) and "\n" in one.strip() for one in effect.args.values())
    if not command or is_script or len(command) > MAX_COMMAND:
        return
    rest = [one for one in draft.items("commands") if one["text"] != command]
    items = [*rest, draft.item(command, source, "tool")]
    draft.set_items("commands", newest(items, draft.limits["commands"]))


def _resolve(draft: NotesDraft, key: str, told: str, source: str) -> None:
    """Take off the error of a call that succeeds now; that is progress."""
    rest = [one for one in draft.items("errors") if one.get("key") != key]
    if len(rest) < len(draft.items("errors")):
        draft.set_items("errors", rest)
        _add_progress(draft, f"Fixed: {told}", source)


def _add_progress(draft: NotesDraft, text: str, source: str) -> None:
    item = draft.item(one_line(text, MAX_ITEM), source, "tool")
    draft.add("progress", item)


def _touch_files(
    draft: NotesDraft, effect: ToolEffect, source: str, root: str | None, *, failed: bool
) -> None:
    touched: dict[str, str] = {}
    for path, verb in (
        *((path, "read") for path in effect.read),
        *_files_of_command(effect.command or "", root),
        *((path, "changed") for path in effect.changed),
    ):
        if path.strip("/.") and (verb == "ran" or not failed):
            touched[path] = max(verb, touched.get(path, verb), key=_STRENGTH.__getitem__)
    for path, verb in touched.items():
        _add_file(draft, draft.item(path, source, "tool"), verb)


def _files_of_command(command: str, root: str | None) -> Iterator[tuple[str, str]]:
    """Yield the files that a command names, each with what it does to it."""
    for part in _COMMAND_PARTS.split(command.partition("<<")[0]):
        verb = _VERBS.get(kind_of_command(part.strip().partition(">")[0]), "ran")
        for match in _FILE.finditer(part):
            if path := plain_path(match[0], root):
                yield path, "changed" if _WRITTEN.search(part[: match.start()]) else verb


def _add_file(draft: NotesDraft, item: NoteItem, verb: str | None) -> None:
    """Put a file at the end; where there are too many, the oldest that was only read goes."""
    items = list(draft.items("files"))
    place = find(items, lambda one: one["text"] == item["text"])
    before = items.pop(place) if place is not None else None
    strongest = max(verb, before.get("verb") if before else None, key=_STRENGTH.__getitem__)
    if strongest:
        item["verb"] = strongest
    items.append(item)
    while len(items) > draft.limits["files"]:
        only_read = find(items, lambda one: _STRENGTH[one.get("verb")] <= _STRENGTH["read"])
        del items[only_read or 0]
    draft.set_items("files", items)


def _read_todos(draft: NotesDraft, args: Mapping[str, object], source: str) -> None:
    """Read a list of to-dos: what is done is progress, the rest are sub-goals."""
    todos = next(filter(None, map(todos_in, args.values())), None)
    if todos is None:
        return
    pending: list[NoteItem] = []
    for text, status in todos:
        if status in DONE:
            _add_progress(draft, text, source)
        else:
            pending.append(draft.item(one_line(text, MAX_ITEM), source, "tool"))
    pending = pending[: draft.limits["subgoals"]]
    if [one["text"] for one in pending] != [one["text"] for one in draft.items("subgoals")]:
        draft.set_items("subgoals", pending)
