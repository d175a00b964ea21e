"""Removes words from values: texts, messages, memory states and values of a graph's state."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, cast

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from langchain_tokenmem.core.block_types import REASONING
from langchain_tokenmem.core.covered import without_words_of
from langchain_tokenmem.core.messages import REFERENCES, reference
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import MemoryState, SummaryEntry
from langchain_tokenmem.storage.codec import LOOKED_INTO, mapped
from langchain_tokenmem.storage.message_json import fields_of, to_json

_STATE_KEYS = frozenset({"version", "summary", "kept", "cuts", "blocks"})
_MESSAGE_IDS = frozenset({"id", "type", "tool_call_id", "usage_metadata"})
_BLOCK_IDS = frozenset({"id", "type", "index", "tool_use_id", "tool_call_id", "call_id"})
_FREE = frozenset({"args", "input", "arguments", "artifact"})
"""Fields of a message inside which an application uses its own names, such as `id`."""
_PLAIN = (type(None), bool, Enum, type)


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

    def text(self, text: str) -> str:
        """Return a text without the words."""
        new, count = self._pattern.subn(lambda _match: self._replacement, text)
        self.found += count
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
        if _is_state(value):
            return self.state(cast("MemoryState", value))
        if kind is dict:
            return {self._key(key): self.value(item) for key, item in value.items()}
        return self._object(value)

    def _object(self, value: Any) -> Any:
        kind = type(value)
        new: Any
        if kind in {set, frozenset}:
            new = kind(map(self.value, value))
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            new = kind(*map(self.value, value))
        elif isinstance(value, bytes):
            new = self._bytes(value)
        elif isinstance(value, BaseMessage):
            new = self.message(value)
        elif isinstance(value, BaseModel):
            new = value.model_copy(update=self._changed(fields_of(value)))
        elif dataclasses.is_dataclass(value) and not isinstance(value, (type, *LOOKED_INTO)):
            new = self._dataclass(value)
        else:
            new = mapped(value, self.value)
            if new is value and not isinstance(value, _PLAIN):
                self.opaque += self.holds(to_json(value)[0])
        return new

    def message(self, message: BaseMessage) -> BaseMessage:
        """Return a message without the words; its ids and those of its calls are kept."""
        fields = fields_of(message)
        new = {key: value for key, value in self.record(fields).items() if value is not fields[key]}
        return message.model_copy(update=new) if new else message

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
            new = {
                self._key(name): item if name in _BLOCK_IDS else self._in_message(name, item)
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
        blocks = {}
        for key, block in state["blocks"].items():
            seen = self.found
            self.value({k: v for k, v in block.items() if k not in {"ids", "words", "scores"}})
            if self.found == seen and key not in self.gone:
                blocks[key] = block
        new: dict[str, Any] = {**state, "blocks": blocks}
        if is_log_new and summary:
            new["summary"] = {**summary, "entries": entries}
        for name in ("pins", "modes", "turns"):
            if name in new:
                seen = self.found
                new[name] = self._in_message("", new[name])
                if name == "turns" and self.found > seen:
                    del new[name]
        touched = self.gone & {*self.places} or is_log_new
        if touched or any(not self.gone.isdisjoint(block["ids"]) for block in blocks.values()):
            new = dict(without_words_of(self.gone, cast("Any", new), is_log_new=is_log_new))
        if new == state and self.found == before:
            return state
        self.found += self.found == before
        return cast("MemoryState", new)

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

    def _key(self, key: Any) -> Any:
        return self.text(key) if type(key) is str else key

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

    def _changed(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        new = {name: self.value(field) for name, field in fields.items()}
        return {name: field for name, field in new.items() if field is not fields[name]}

    def _dataclass(self, value: Any) -> Any:
        names = [field.name for field in dataclasses.fields(value)]
        changed = self._changed({name: getattr(value, name, None) for name in names})
        new = copy.copy(value)
        for name, field in changed.items():
            object.__setattr__(new, name, field)
        return new


def _is_state(value: Any) -> bool:
    return type(value) is dict and value.keys() >= _STATE_KEYS


def _without_lines(text: str, names: set[str]) -> str:
    """Return the text of an entry without the lines that name some messages by their references.

    Nothing is left if one of them is not named, such as a result: any line may tell of it.
    """
    lines = {line: {*REFERENCES.findall(line)} for line in text.split("\n")}
    if not names <= set().union(*lines.values()):
        return ""
    return "\n".join(line for line, named in lines.items() if names.isdisjoint(named))
