"""Keys and values in the result of a tool: of JSON, Python literals, YAML and records."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, time
from typing import Any

import yaml

from langchain_tokenmem.core.facts.tool_results import MAX_JSON
from langchain_tokenmem.summarize.whole_pieces import without_line_breaks

_JSON = json.JSONDecoder(parse_float=str)
"""It leaves numbers as they were written, such as 19.90."""
_JSON_LINE = re.compile(r"^[{\[]", re.MULTILINE)
_AROUND = 300
"""Maximum characters around the JSON of a result, and no more than it has itself."""
_TAG = re.compile(r"^<[\w-]+>\s*\Z", re.MULTILINE)
_PYTHON = re.compile(r"[\[({]{1,3}'|\[\(")
"""Beginning of the objects, or rows of a database, that a tool in Python returns as their text."""
_WRITTEN: dict[str, Any] = {
    "date": date,
    "datetime": datetime,
    "time": time,
    **dict.fromkeys(("Decimal", "UUID", "Timestamp"), str),
}
"""Calls that Python writes for a value, each with what reads it."""
_YAML = re.compile(r"(?:- )?[A-Za-z_][\w ]{0,30}:(?: |\n)")
_LONGEST_YAML = 50_000
_YAML_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""The one in C is ten times as fast."""
_RECORD = re.compile(r"(?:- | {2,})?([A-Za-z_][\w ]{0,30}): (\S.*)")
_RECORDS_SHARE = 0.6
_FEWEST_KEYS = 3
FEW_WORDS = 4
"""A value with more words is prose."""
_MOST_SCALARS, _DEEPEST = 500, 8
_SCALAR = 60
"""Maximum characters of a value that may be shown."""
_NO_VALUES = frozenset({"", "[]", "{}", "null", "none", "~", "true", "false", "|", ">", "-"})
_NOT_SHOWN = frozenset({"type", "object", "annotations", "meta", "isError", "isFile"})
"""Keys that carry no information."""
_LISTS = ("results", "hits", "records", "rows", "documents")
"""Keys under which a search returns its hits."""
TITLES = frozenset({"title", "name", "subject"})
"""Keys of what names a record, of any number of words."""


def values_in(text: str) -> tuple[list[tuple[str, str]], str] | None:
    r"""Return the short values of a result with their keys, and its size; None for other texts.

    Example:
        >>> values_in('2 rows: [{"id": 7, "name": "Ann"}]')
        >>> values_in('2 rows:\n[{"id": 7, "name": "Ann"}, {"id": 8, "name": "Bo"}]')
        ([('id', '7'), ('name', 'Ann'), ('id', '8'), ('name', 'Bo')], '2 records')
    """
    data = _data_in(text)
    if data is None:
        return _records_in(text)
    if data in ([], {}) or _finds_nothing(data):
        return [], "nothing"
    pairs = [*scalars_in(data)]
    if not pairs:
        return None
    if len(pairs) == 1:
        return pairs, "=".join(filter(None, pairs[0]))
    records = [data.get(key) for key in _LISTS] if isinstance(data, dict) else [data]
    found = next(filter(_are_records, records), None)
    return pairs, counted(len(found), "record") if found else counted(len(pairs), "value")


def _finds_nothing(data: Any) -> bool:
    """Return whether some data is the answer of a search without hits, and nothing else."""
    is_answer = isinstance(data, dict) and not data.keys().isdisjoint(_LISTS)
    return is_answer and all(value in ([], {}, None, "") for value in data.values())


def scalars_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the short scalars of some data with their keys, each pair once."""
    seen: set[tuple[str, str]] = set()
    for pair in _leaves(value, "", 0):
        if pair not in seen:
            seen.add(pair)
            yield pair
        if len(seen) >= _MOST_SCALARS:
            return


def _leaves(value: Any, key: str, depth: int) -> Iterator[tuple[str, str]]:
    if key in _NOT_SHOWN or len(key) > _SCALAR or depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield from _leaves(one, without_line_breaks(str(inner)), depth + 1)
    elif isinstance(value, (list, tuple, set)):
        for one in sorted(value, key=str) if isinstance(value, set) else value:
            yield from _leaves(one, key, depth + 1)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = without_line_breaks(str(value))
        if len(text) <= _SCALAR and text.lower() not in _NO_VALUES:
            yield key, text


def _data_in(text: str) -> Any:
    """Return the data that a result is; None if it is anything else."""
    if len(text) > MAX_JSON:
        return None
    with suppress(ValueError, RecursionError):
        return _JSON.decode(text) if text[:1] in {"{", "["} else _json_inside(text)
    with suppress(ValueError, RecursionError):
        if text.startswith("{"):
            return [_JSON.decode(line) for line in text.splitlines() if line.strip()]
    with suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        if _PYTHON.match(text):
            return _python_in(text)
    with suppress(yaml.YAMLError, ValueError, TypeError, RecursionError):
        if _YAML.match(text) and len(text) <= _LONGEST_YAML:
            return _yaml_in(text)
    return None


def _python_in(text: str) -> Any:
    """Return Python literals; a value that Python writes as a call counts as a text.

    Raises:
        ValueError, SyntaxError: When it is anything else.
    """
    with suppress(ValueError):
        return ast.literal_eval(text)
    return ast.literal_eval(_WithoutCalls().visit(ast.parse(text, mode="eval")))


class _WithoutCalls(ast.NodeTransformer):
    """Replaces calls: `Decimal('1.5')` by `1.5`, `datetime.date(2026, 11, 3)` by `2026-11-03`."""

    def visit_Call(self, node: ast.Call) -> ast.Constant:
        """Return a call as its text."""
        values = [one.value for one in node.args if isinstance(one, ast.Constant)]
        name = ast.unparse(node.func).rpartition(".")[2]
        if name not in _WRITTEN or len(values) != len(node.args):
            raise ValueError(name)
        return ast.Constant(str(_WRITTEN[name](*values)))


def _json_inside(text: str) -> Any:
    """Return the object or the records that a server put between a few words, or in tags.

    Raises:
        ValueError: When it finds no JSON, or more than a few words around it.
    """
    start = _JSON_LINE.search(text)
    if start is None:
        raise ValueError("no line begins with JSON")
    data, end = _JSON.raw_decode(text, start.start())
    before, after = text[: start.start()], text[end:]
    is_tagged = _TAG.search(before) and after.lstrip().startswith("</")
    is_most = len(text) <= 2 * (end - start.start()) and len(before) + len(after) <= _AROUND
    is_alone = not after.partition("\n")[0].strip() and not _JSON_LINE.search(after)
    is_data = isinstance(data, dict) or data == [] or _are_records(data)
    if not (is_data and is_alone and (is_tagged or is_most)):
        raise ValueError("text with JSON in it")
    return data


def _yaml_in(text: str) -> Any:
    """Return the records of YAML, or an object with several keys; None for prose in its form.

    Raises:
        ValueError: When a key or a named part occurs twice; YAML itself repeats or drops it.
    """
    data = _plain(yaml.compose(text, Loader=_YAML_LOADER), set())
    if not (_are_records(data) or (isinstance(data, dict) and len(data) >= _FEWEST_KEYS)):
        return None
    sizes = [len(one.split()) for _, one in _leaves(data, "", 0)]
    return data if 2 * sum(size <= FEW_WORDS for size in sizes) > _scalars_of(data) else None


def _plain(node: Any, seen: set[int]) -> Any:
    """Return the data of a node; each scalar is the text that was written."""
    if id(node) in seen:
        raise ValueError("an alias")  # a few of them can repeat a part a million times
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [_plain(one, seen) for one in node.value]
    if not isinstance(node, yaml.MappingNode):
        return node.value
    data = {_plain(key, seen): _plain(value, seen) for key, value in node.value}
    if len(data) < len(node.value):
        raise ValueError("a key that occurs twice")
    return data


def _scalars_of(data: Any) -> int:
    if isinstance(data, dict):
        return sum(map(_scalars_of, data.values()))
    return sum(map(_scalars_of, data)) if isinstance(data, list) else 1


def _are_records(data: Any) -> bool:
    is_full = isinstance(data, list) and bool(data)
    return is_full and all(isinstance(one, (dict, tuple)) for one in data)


def _records_in(text: str) -> tuple[list[tuple[str, str]], str] | None:
    """Return values and size of a text that has mostly lines such as `Author: Ann`."""
    lines = [line for line in text[:MAX_JSON].splitlines() if line.strip()]
    found = [match for line in lines if (match := _RECORD.fullmatch(line))]
    if len(found) <= max(2, _RECORDS_SHARE * len(lines)):
        return None
    pairs = [(m[1].strip(), value) for m in found if (value := _record_value(m[2]))]
    count = sum(line.startswith("- ") for line in lines)
    size = counted(count, "record") if count else counted(len(found), "value")
    return [*dict.fromkeys(pairs)][:_MOST_SCALARS], size


def _record_value(text: str) -> str:
    """Return the value of a line `key: value`; empty if it is long or continues below."""
    value = without_line_breaks(text)
    if len(value) > 1 and value[0] in "'\"":
        value = value[1:-1] if value[-1] == value[0] else ""
    return value if len(value) <= _SCALAR and value.lower() not in _NO_VALUES else ""


def counted(count: int, of: str) -> str:
    """Return a number of things, such as `2 lines`."""
    return f"{count} {of}{'' if count == 1 else 's'}"


def as_json(value: object) -> str:
    """Return some data as JSON on one line; what JSON cannot hold as Python writes it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return str(value)
