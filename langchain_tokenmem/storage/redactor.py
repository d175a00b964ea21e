"""Removes words from values: texts, messages, memory states and values of a graph's state."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import chain, count
from typing import Any, TypeVar, cast

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from langchain_tokenmem.core.block_types import REASONING
from langchain_tokenmem.core.covered import without_words_of
from langchain_tokenmem.core.messages import REFERENCES, reference
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import Block, MemoryState, ModesState, NoteItem, Pin, SummaryEntry
from langchain_tokenmem.storage.codec import LOOKED_INTO, NAMED, is_mark, mapped
from langchain_tokenmem.storage.message_json import fields_of, to_json

Model = TypeVar("Model", bound=BaseModel)

_STATE_KEYS = frozenset({"version", "summary", "kept", "cuts", "blocks"})
_NOTE_NAMES = frozenset(
    {"id", "type", "created_at", "updated_at", "key", "kind", "project", "source", "by", "user_id"}
)
"""Fields of a note that are not its text."""
_MESSAGE_IDS = frozenset({"id", "type", "status", "tool_call_id", "usage_metadata"})
_BLOCK_IDS = frozenset({"id", "type", "index", "tool_use_id", "tool_call_id", "call_id"})
_FREE = frozenset({"args", "input", "arguments", "artifact"})
"""Fields of a message inside which an application uses its own names, such as `id`."""
_PLAIN = (type(None), bool, Enum, type)
_RANDOM = re.compile(r"(?:(?:lc_)?run-+)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?")
"""An id that was generated: a UUID, or the id that LangChain gives to an answer."""


class Redactor:
    """Replaces words in values, and counts what it has replaced.

    Args:
        what: The words exactly as they are written, or a compiled pattern.
        replacement: Text that replaces them.

    Attributes:
        found: How often the words were found.
        opaque: How many values contain the words in a form that could not be changed.
        gone: Ids of the messages that were changed.
        places: Number in its transcript of each message of the thread, by id; None for a message
            that only a checkpoint has.

    Raises:
        ConfigurationError: When the words are empty, or the replacement contains them.
    """

    def __init__(self, what: str | re.Pattern[str], replacement: str = "[redacted]") -> None:
        if isinstance(what, str):
            # A string inside JSON inside a message is escaped.
            forms = {what, json.dumps(what)[1:-1], json.dumps(what, ensure_ascii=False)[1:-1]}
            self._pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len)[::-1])))
        elif isinstance(what, re.Pattern) and isinstance(what.pattern, str):
            self._pattern = what
        else:
            raise ConfigurationError(f"{what!r} is neither a text nor a compiled pattern of text.")
        if self._pattern.search(""):
            raise ConfigurationError(f"{what!r} matches the empty text; name the words to remove.")
        if not isinstance(replacement, str) or self._pattern.search(replacement):
            raise ConfigurationError(
                f"The replacement {replacement!r} is not a text, or contains the words itself."
            )
        self._replacement = replacement
        self.found = self.opaque = 0
        self.gone: set[str] = set()
        self.places: dict[str, int | None] = {}

    def only_quotes(self, gone: set[str]) -> Redactor:
        """Return a redactor that only drops blocks that quote some messages."""
        self._pattern, self.gone = re.compile(r"(?!)"), gone
        return self

    def holds(self, text: str) -> bool:
        """Return whether a text contains the words."""
        return self._pattern.search(text) is not None

    def holds_id(self, *names: str | None) -> bool:
        """Return whether one of some ids contains the words, apart from what was generated."""
        return any(self.holds(_RANDOM.sub("", name)) for name in names if name)

    def text(self, text: str) -> str:
        """Return a text without the words."""
        new, found = self._pattern.subn(lambda _match: self._replacement, text)
        self.found += found
        return new

    def value(self, value: Any) -> Any:
        """Return a value without the words; the same object if it does not contain them."""
        before = self.found
        new = self._value(value)
        return value if self.found == before else new

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind in {int, float}:
            return self._number(value)
        return self._dict(value) if kind is dict else self._object(value)

    def _object(self, value: Any) -> Any:
        kind = type(value)
        new: Any
        if kind in {set, frozenset}:
            new = kind(map(self.value, value))
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            new = kind(*map(self.value, value))
        elif isinstance(value, bytes):
            new = self._bytes(value)
        elif isinstance(value, BaseMessage):  # its ids and those of its calls are kept
            new = _with_changed(value, self.record(fields_of(value)))
        elif isinstance(value, BaseModel):
            fields = fields_of(value)
            new = _with_changed(value, {name: self.value(old) for name, old in fields.items()})
        elif dataclasses.is_dataclass(value) and not isinstance(value, (type, *LOOKED_INTO)):
            new = self._dataclass(value)
        else:
            new = mapped(value, self.value)
            if new is value and not isinstance(value, _PLAIN):
                self.opaque += self.holds(to_json(value)[0])
        return new

    def _dict(self, value: dict[Any, Any]) -> Any:
        if is_mark(value):
            return value
        if value.keys() >= _STATE_KEYS:
            return self.state(cast("MemoryState", value))
        if _is_pin(value):
            return self._pin(cast("Pin", value))
        new: dict[Any, Any] = {}
        for key, item in value.items():
            name = key if _is_pin(item) else self._key(key, value, new)
            new[name] = self.value(item)
        return new

    def channel(self, name: str, value: Any) -> Any:
        """Return the value of a graph's channel without the words; the name of a mode is kept.

        A channel of the application may have such a name, too: a text of several words changes.
        """
        if name.endswith("_mode") and type(value) is str and len(value.split()) <= 1:
            self.opaque += self.holds(value)
            return value
        return self.value(value)

    def item(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the value of a store's item without the words; only the texts of a note change."""
        if not value.keys() >= _NOTE_NAMES:
            return cast("dict[str, Any]", self.value(value))
        before = self.found
        new = {
            name: item if name in _NOTE_NAMES else self.value(item) for name, item in value.items()
        }
        return value if self.found == before else new

    def holds_name(self, value: Mapping[str, Any], *names: str) -> bool:
        """Return whether what names an item, or a note and its owner, contains the words.

        Args:
            value: The item's value.
            names: Its key and namespace, which are derived from a note's own names.
        """
        if not value.keys() >= _NOTE_NAMES:
            return self.holds_id(*names)
        project = value["project"] or {}
        return self.holds_id(value["key"], value["user_id"], project.get("label"))

    def record(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a message without the words."""
        return {
            key: value if key in _MESSAGE_IDS else self._in_message(key, value)
            for key, value in fields.items()
        }

    def _in_message(self, key: str, value: Any) -> Any:
        if key in _FREE or type(value) not in {dict, list}:
            return self.value(value)
        before = self.found
        new: Any = []
        if type(value) is dict:
            # Its names are those of a format, such as "text": without them it cannot be read.
            self.opaque += any(map(self.holds, map(str, value)))
            new = {
                name: item if name in _BLOCK_IDS else self._in_message(name, item)
                for name, item in value.items()
            }
        else:
            for item in value:
                seen = self.found
                one = self._in_message("", item)
                # Changed reasoning no longer matches its signature: remove all of it.
                is_reasoning = isinstance(item, dict) and item.get("type") in REASONING
                if self.found == seen or not is_reasoning:
                    new.append(one)
        return value if self.found == before else new

    def state(self, state: MemoryState) -> MemoryState:
        """Return a memory's state without the words, and without what was derived from them.

        Lines of the log about changed messages are removed; the next call writes the entry again
        from the messages as they are now.
        """
        before = self.found
        summary = state["summary"]
        entries, start = [], -1.0
        for entry in summary["entries"] if summary else ():
            entries.append(self._entry(entry, start))
            start = self._end_of(entry)
        is_log_new = summary is not None and entries != summary["entries"]
        blocks = {
            key: block
            for key, block in state["blocks"].items()
            if key not in self.gone and not self._finds(*_texts_of_block(block))
        }
        new: dict[str, Any] = {**state, "blocks": blocks}
        if is_log_new and summary:
            new["summary"] = {**summary, "entries": entries}
        if "pins" in state:
            new["pins"] = [*map(self._pin, state["pins"])]
        if "modes" in state:
            new["modes"] = self._modes(state["modes"])
        if "turns" in state:
            memories = [*state["turns"]["done"].values(), state["turns"]["running"]]
            files = [file for one in memories for file in one["files_changed"]]
            failed = [each["command"] for one in memories for each in one["failed_commands"]]
            if self._finds(*files, *failed):
                del new["turns"]
        touched = self.gone & {*self.places} or is_log_new
        if touched or any(not self.gone.isdisjoint(block["ids"]) for block in blocks.values()):
            new = dict(without_words_of(self.gone, cast("Any", new), is_log_new=is_log_new))
        if new == state and self.found == before:
            return state
        self.found += self.found == before
        return cast("MemoryState", new)

    def _finds(self, *texts: str) -> bool:
        """Return whether one of the texts, which are dropped then, contains the words."""
        is_found = any(map(self.holds, texts))
        self.found += is_found
        return is_found

    def _pin(self, pin: Pin) -> Pin:
        return {**pin, "text": self.text(pin["text"])}

    def _modes(self, modes: ModesState) -> ModesState:
        """Return working notes without the items and the names that contain the words."""
        sections = {
            name: [item for item in items if not self._finds(*_texts_of_item(item))]
            for name, items in modes["sections"].items()
        }
        names = {name: count for name, count in modes["names"].items() if not self._finds(name)}
        return {**modes, "sections": sections, "names": names}

    def _end_of(self, entry: SummaryEntry) -> float:
        """Return the number of the last message that an entry covers; infinity if not known."""
        known = [self.places.get(key) for key in entry["last_ids"]]
        return max((place for place in known if place is not None), default=float("inf"))

    def _entry(self, entry: SummaryEntry, start: float) -> SummaryEntry:
        """Return an entry of the log without the words and the lines about changed messages."""
        changed = {key: self.places[key] for key in self.gone & self.places.keys()}
        end = self._end_of(entry)
        mine = {key for key, at in changed.items() if at is None or start < at <= end}
        seen = self.found
        new: SummaryEntry = {**entry, "text": self.text(entry["text"])}
        new["failures"] = [self.text(one) for one in entry["failures"]]
        if "todos" in entry:
            new["todos"] = self.text(entry["todos"])
        if self.found == seen and not mine:
            return entry
        if mine:
            new.pop("todos", None)
            new["text"] = (
                _without_lines(new["text"], set(map(reference, mine))) or self._replacement
            )
        if "words" in entry or mine:
            new["words"] = ""  # so that the next call writes it again
        return new if new != entry else entry

    def _key(self, key: Any, *others: Mapping[Any, Any]) -> Any:
        """Return a key without the words that none of the others has: no value is lost."""
        if type(key) is not str or not self.holds(key):
            return key
        new = self.text(key)
        names = chain([new], (f"{new} ({n})" for n in count(2)))
        return next(name for name in names if not any(name in other for other in others))

    def _number(self, value: float) -> Any:
        if self._pattern.fullmatch(str(value)) is None:
            return value
        self.found += 1
        return self._replacement

    def _bytes(self, value: bytes) -> bytes:
        try:
            return self.text(value.decode()).encode()
        except UnicodeDecodeError:
            self.opaque += self.holds(value.decode("latin-1"))
            return value

    def _dataclass(self, value: Any) -> Any:
        new = copy.copy(value)
        for field in dataclasses.fields(value):
            old = getattr(value, field.name, None)
            is_name = field.name == "id" and isinstance(value, NAMED)
            if not is_name and (changed := self.value(old)) is not old:
                object.__setattr__(new, field.name, changed)
        return new


def _with_changed(value: Model, fields: Mapping[str, Any]) -> Model:
    """Return a model with the fields that differ; a cached property must not become a field."""
    old = fields_of(value)
    return value.model_copy(update={k: new for k, new in fields.items() if new is not old[k]})


def _is_pin(value: Any) -> bool:
    is_like_one = type(value) is dict and value.keys() == Pin.__annotations__.keys()
    return is_like_one and str(value["id"]).startswith("pin_")


def _texts_of_block(block: Block) -> Iterator[str]:
    yield from (block["text"], block.get("notes", ""), block.get("kept", ""))
    yield from chain(*block.get("sections", {}).values(), block.get("named", ()))


def _texts_of_item(item: NoteItem) -> Iterator[str]:
    yield from (item["text"], item.get("key", ""), item.get("rationale", ""))
    yield from item.get("rejected", ())


def _without_lines(text: str, names: set[str]) -> str:
    """Return the text of an entry without the lines that name some messages by their references.

    Nothing is left if one of them is not named, such as a result: any line may tell of it.
    """
    lines = {line: {*REFERENCES.findall(line)} for line in text.split("\n")}
    if not names <= set().union(*lines.values()):
        return ""
    return "\n".join(line for line, named in lines.items() if names.isdisjoint(named))
