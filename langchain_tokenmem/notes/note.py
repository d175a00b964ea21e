"""`Note`: a short text that is kept deliberately, its tags, and its form in a store."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from langchain_tokenmem.core.argument_checks import checked_choice
from langchain_tokenmem.core.facts.sentences import any_of
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import Author

_NAMED = {
    "function": ("function", "method", "def", "func", "fn"),
    "package": ("package", "module", "library", "crate"),
}
_KINDS = {word: kind for kind, words in _NAMED.items() for word in words}
_DECLARED = re.compile(
    rf"(?:\b(?P<article>the|a|an|this|that|each|every|any|our|my|your|its|no|one)\s+)?"
    rf"(?<![\w./-])(?P<word>{'|'.join(_KINDS)})\s+[`'\"]?"
    r"(?P<name>@?[A-Za-z_][\w.$/@-]{0,99})(?P<call>\(\))?",
    re.IGNORECASE,
)
_CALL = re.compile(r"(?<![\w.])[A-Za-z_]\w{0,60}(?:\.\w{1,60}){0,4}\(\)")
# A plain word after "function" or "package" is often a verb or a function word.
_OTHER_WORDS = """
a about after all an and are as at be because been before being but by call called calls can could
do does each for from get gets had has have if in into is it its itself may must name named names
needs not of on or our out over returns runs should since so takes than that the their them then
there these they this those to under uses using was we were when where which while who will with
works would you your
"""
_NO_NAMES = frozenset(_OTHER_WORDS.split())
# After an article: "the package arrived", "the function works".
_VERB_END = re.compile(r"(?:ed|ing|s)$")
_IS_IDENTIFIER = re.compile(r"[_.$/@\d-]|[a-z][A-Z]")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,12}://\S{1,300}")
_PATH = re.compile(
    r"(?<![\w/.\\-])(?:[A-Za-z]:\\[\w.\\-]{1,200}"
    r"|(?:~|\.{1,2})?/?(?:[\w.@+-]{1,80}/){1,20}[\w.@+*-]{0,80}|/[\w.@+-]{2,80}"
    rf"|[\w-]{{1,60}}(?:\.[\w-]{{1,30}}){{0,3}}\.{any_of('extension')}\b"
    r"|\.(?:env|gitignore|dockerignore|bashrc)\b|(?:Docker|Make)file\b)"
)
# "his/her/their" has slashes, too: a relative path needs a dot, a line, a digit or an end.
_IS_PATH = re.compile(r"^[/~.]|^[A-Za-z]:\\|[._\d]|/$|file$")
_DATE = re.compile(r"[\d./:-]+")
_HOST = re.compile(r"^(?:www\.|[\w.-]+\.(?:com|org|net|io|dev|ai|app|edu|gov|eu|uk|de|fr|co)/)")


def tags_in(content: str) -> list[str]:
    """Return the paths, functions and packages that a text names, each once, in this order.

    Example:
        >>> tags_in("Edit /src/app/config.py: function parse_config in package main")
        ['/src/app/config.py', 'function parse_config', 'package main']
        >>> tags_in("See https://example.com/a/b.py of 2026/11/22, either/or.")
        []
    """
    return list(dict.fromkeys([*_paths(content), *_declared(content), *_calls(content)]))


def _paths(content: str) -> Iterator[str]:
    for match in _PATH.finditer(_ADDRESS.sub(" ", content)):
        text = match[0].rstrip(".,;:!?)]}'\"")
        is_other = _DATE.fullmatch(text) or _HOST.search(text)
        if _IS_PATH.search(text) and not is_other:
            yield text


def _declared(content: str) -> Iterator[str]:
    for match in _DECLARED.finditer(content):
        name = match["name"].rstrip(".-/$@")
        is_identifier = bool(_IS_IDENTIFIER.search(name) or match["call"])
        is_verb = match["article"] and _VERB_END.search(name)
        is_word = len(name) < 2 or name.lower() in _NO_NAMES or is_verb  # noqa: PLR2004
        if name and (is_identifier or not is_word):
            yield f"{_KINDS[match['word'].lower()]} {name}"


def _calls(content: str) -> Iterator[str]:
    yield from (f"function {match[0][:-2]}" for match in _CALL.finditer(content))


NoteLevel = Literal["session", "project", "global"]
NoteKind = Literal["fact", "preference", "convention", "pattern"]

LEVELS: tuple[NoteLevel, ...] = get_args(NoteLevel)
"""From the nearest to the widest."""

MAX_CONTENT = 10_000
"""Maximum characters of a note; longer texts are documents, for a retriever."""

_ID_DIGITS = 8
_ID = re.compile(r"mem_[0-9a-f]{8,64}")
_MAX_KEY = 200
_MAX_TAGS = 40
_MAX_TAG = 200
_EXPIRES_AT = "expires_at"


@dataclass(frozen=True, slots=True)
class Project:
    """A project of a user.

    Attributes:
        id: Digest of its name or path, 16 hex digits.
        label: Its name or path, as given.

    Example:
        >>> Project.named("shop").id
        '8d9001d32c6a703d'
    """

    id: str
    label: str

    @classmethod
    def named(cls, name: str | os.PathLike[str]) -> Project:
        """Return the project of a name or path; a trailing slash is ignored.

        Raises:
            ConfigurationError: When the name is blank or not a text.
        """
        label = os.fspath(name) if isinstance(name, os.PathLike) else name
        if not isinstance(label, str) or not label.strip():
            raise ConfigurationError(f"project is {label!r}; it is a name or a path.")
        same = label.strip().rstrip("/\\") or label
        digest = hashlib.sha256(same.encode("utf-8", "surrogatepass")).hexdigest()
        return cls(digest[:16], clean(label))


@dataclass(frozen=True, slots=True)
class Note:
    """A short text that is kept deliberately.

    Attributes:
        id: `mem_` and the first 8 hex digits of the content's SHA-256; more if another note of the
            same scope has these.
        content: Its text.
        type: Its level: `session`, `project` or `global`.
        created_at: When it was first added, in UTC; new content under the same key keeps it.
        updated_at: When its content was last changed, in UTC.
        key: Its name, unique in a level and scope.
        kind: `fact`, `preference`, `convention`, `pattern` or None.
        tags: Words to find it by: those given, then paths, functions and packages in the content.
        project: The project of a note of that level.
        source: Number of the message that it comes from.
        by: Its author; an agent's tools never replace or remove a note by the application.
    """

    id: str
    content: str
    type: NoteLevel
    created_at: datetime
    updated_at: datetime
    key: str | None = None
    kind: NoteKind | None = None
    tags: tuple[str, ...] = ()
    project: Project | None = None
    source: int | None = None
    by: Author = "application"

    @property
    def item_key(self) -> str:
        """The key of its item in the store: from its own key, so that new content replaces it.

        So two writers of the same key, or of the same content without a key, write the same item.
        """
        return self.id if self.key is None else item_key_of(self.key)


def item_key_of(key: str) -> str:
    """Return the item's key for a note with its own key."""
    return f"key_{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def note_id(content: str, taken: Collection[str] = ()) -> str:
    """Return the id for a content: 8 hex digits of its SHA-256, more if these are taken.

    Example:
        >>> note_id("Use tabs.")
        'mem_3daa6bb3'
        >>> note_id("Use tabs.", {"mem_3daa6bb3"})
        'mem_3daa6bb31'
    """
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    ids = (f"mem_{digest[:length]}" for length in range(_ID_DIGITS, len(digest) + 1))
    return next((each for each in ids if each not in taken), f"mem_{digest}")


def is_note_id(name: str) -> bool:
    """Return whether a name has the form of a note's id."""
    return _ID.fullmatch(name) is not None


def clean(text: str) -> str:
    """Return a text without what databases and JSON reject: NUL and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8").strip()


def checked_content(content: Any) -> str:
    """Return the content of a note.

    Raises:
        ConfigurationError: When it is blank, not a text, or too long.
    """
    text = clean(content) if isinstance(content, str) else ""
    if not text:
        raise ConfigurationError("The content of a note must be a string that is not blank.")
    if len(text) > MAX_CONTENT:
        raise ConfigurationError(
            f"The content has {len(text):,} characters; a note has at most {MAX_CONTENT:,}. "
            "Keep only the point of it."
        )
    return text


def checked_key(key: Any) -> str | None:
    """Return the key of a note, or None if it has none.

    Raises:
        ConfigurationError: When it is blank, not a text, too long, or has the form of an id.
    """
    if key is None:
        return None
    text = clean(key) if isinstance(key, str) else ""
    if not text or len(text) > _MAX_KEY or "\n" in text or is_note_id(text):
        raise ConfigurationError(
            f"A key is a name of at most {_MAX_KEY} characters on one line, such as "
            '"build command", and does not look like an id.'
        )
    return text


def checked_kind(kind: Any) -> NoteKind | None:
    """Return a kind, or None if none is given.

    Raises:
        ConfigurationError: When there is no such kind.
    """
    found: NoteKind | None = None if kind is None else checked_choice(kind, NoteKind, "kind")
    return found


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags, each once.

    Raises:
        ConfigurationError: When they are not a list of texts.
    """
    given = [tags] if isinstance(tags, str) else list(tags)
    if not all(isinstance(tag, str) for tag in given):
        raise ConfigurationError("tags must be a list of strings.")
    found = dict.fromkeys(" ".join(clean(tag).split())[:_MAX_TAG] for tag in given)
    return tuple(tag for tag in found if tag)[:_MAX_TAGS]


def value_of(note: Note, user_id: str | None, expires_at: datetime | None = None) -> dict[str, Any]:
    """Return a note as the value of an item: plain JSON, with its owner and when it expires."""
    return {
        **asdict(note),
        "created_at": note.created_at.isoformat(),
        "updated_at": note.updated_at.isoformat(),
        "tags": list(note.tags),
        "user_id": user_id,
        **({_EXPIRES_AT: expires_at.isoformat()} if expires_at else {}),
    }


def is_expired(value: Mapping[str, Any], now: Callable[[], datetime]) -> bool:
    """Return whether the value of an item says that its note has expired."""
    end = value.get(_EXPIRES_AT)
    try:
        return end is not None and datetime.fromisoformat(end) <= now()
    except (TypeError, ValueError):  # an application may have stored anything there
        return True


_NOTE = TypeAdapter(Note)


def note_of(value: Mapping[str, Any], user_id: str | None, level: NoteLevel) -> Note | None:
    """Return the note in a value; None for any other value, and for a note of another owner.

    Raises:
        pydantic.ValidationError: When it is a note of this owner, and a field cannot be read.
    """
    # An application may have stored anything there.
    if "content" not in value or value.get("user_id", ...) != user_id or value.get("type") != level:
        return None
    note = _NOTE.validate_python(value)
    created_at, updated_at = (at.astimezone(UTC) for at in (note.created_at, note.updated_at))
    return replace(note, created_at=created_at, updated_at=updated_at)
