"""Recall for a turn: the search for the newest question, and its memory block in the state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import TimedCalls
from langchain_tokenmem.core.messages import digest_of, role_of, text_of, with_ids
from langchain_tokenmem.core.search_units import Hit
from langchain_tokenmem.core.thread_names import is_subgraph_session
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.state import Block, MemoryState

_MAX_HITS = 50
"""Hits that are asked for; the recall share of the budget decides how many are shown."""

_MAX_QUERY_CHARS = 4_000
"""Characters of the newest human message that are searched for, from its beginning."""


class Recaller(Protocol):
    """The part of a recall that the memory uses; `langchain_tokenmem.Recall` is one.

    It may have a `scope` (`session` if it has none) and a `k`, as `Recall` has.
    """

    @property
    def search(self) -> Callable[..., Sequence[Hit]]:
        """Find messages: `search(query, session_id=, user_id=, scope=, k=, exclude=)`."""
        ...

    @property
    def store(self) -> Any:
        """The store that holds the transcripts in which it looks."""
        ...


@dataclass(frozen=True)
class ConversationScope:
    """A conversation whose messages may be recalled: its key, its owner, its own messages.

    Attributes:
        session_id: Names the conversation.
        user_id: Who owns it.
        branch: Every message of this branch by its id, where a session may have several: a graph's
            thread with forks and edits. None for all that is stored in the session.
        pruned: Numbers of messages of this branch beside those, as ranges.
    """

    session_id: str
    user_id: str | None = None
    branch: Mapping[str, BaseMessage] | None = None
    pruned: Sequence[Sequence[int]] = ()


def question_without_block(
    messages: Sequence[BaseMessage], state: MemoryState
) -> BaseMessage | None:
    """Return the human message that asks for a memory block; None if none does.

    A block is made once for each human message, before the model's first word on it.
    """
    named = with_ids(messages[-1:])
    if not named or role_of(named[0]) != "human":
        return None
    known = state["blocks"].get(named[0].id or "")
    if known is None or ("question" not in known and "entry" in known):
        return named[0]  # there is none, or one of working notes only
    return None if known.get("question") in {None, _question_digest(named[0])} else named[0]


def _question_digest(question: BaseMessage) -> str:
    """Return what tells a question from an edited one, in short."""
    return digest_of(question)[:16]


def search_for_question(
    recall: Recaller,
    question: BaseMessage,
    conversation: ConversationScope,
    shown: Collection[str],
    warn: Callable[[str], None],
    stored_form: Callable[[Sequence[BaseMessage]], Sequence[BaseMessage]],
    calls: TimedCalls,
) -> Sequence[Hit] | None:
    """Return what matches a question, and neither is shown already nor of another branch.

    Where the search fails it is None, and a warning says why: the call goes on without.

    Raises:
        ScopeError: When other sessions are asked for and the user is not known.
    """
    try:
        found = calls.run(partial(_search, recall, question, conversation, shown))
        return [hit for hit in found if _is_in_scope(hit, conversation, stored_form)]
    except ScopeError:
        raise
    except Exception as error:  # noqa: BLE001  # an application's own recall may raise
        warn(f"Session {conversation.session_id!r}: nothing is recalled, {error}")
        return None


def _search(
    recall: Recaller,
    question: BaseMessage,
    conversation: ConversationScope,
    shown: Collection[str],
) -> Sequence[Hit]:
    scope = getattr(recall, "scope", "session")
    if scope == "user" and conversation.user_id is None:
        raise ScopeError(
            f"Session {conversation.session_id!r}: a recall with scope='user' searches all "
            f"sessions of a user; name the user with user_id."
        )
    query = _query_of(question)
    if not query:
        return []
    found = recall.search(
        query,
        session_id=conversation.session_id,
        user_id=conversation.user_id,
        scope=scope,
        k=_MAX_HITS,
        exclude=frozenset({*shown, question.id or ""}),
    )
    # A document is left out here: a search brings it back whatever it is told to exclude.
    return [hit for hit in found if hit.message_id not in shown]


def _query_of(question: BaseMessage) -> str:
    """Return the words of a question, pictures and files left out."""
    content = question.content
    blocks = [content] if isinstance(content, str) else content
    texts = [b if isinstance(b, str) else str(b.get("text") or "") for b in blocks]
    return "\n".join(texts)[:_MAX_QUERY_CHARS].strip()


def _is_in_scope(
    hit: Hit,
    conversation: ConversationScope,
    stored_form: Callable[[Sequence[BaseMessage]], Sequence[BaseMessage]],
) -> bool:
    if hit.session_id != conversation.session_id:
        # What a sub-agent has said is nobody else's memory.
        return hit.session_id is None or not is_subgraph_session(hit.session_id)
    if conversation.branch is None or hit.document_id is not None:
        return True
    held = conversation.branch.get(hit.message_id)
    if held is not None:
        # What was edited since is not brought back in its old words.
        return hit.text.strip() in text_of(stored_form([held])[0])
    return any(first <= hit.seq <= last for first, last in conversation.pruned)


def add_to_ranges(ranges: Sequence[Sequence[int]], numbers: Sequence[int]) -> list[list[int]]:
    """Return ranges (first and last number) that hold some numbers, too."""
    joined: list[list[int]] = []
    for first, last in sorted([*map(tuple, ranges), *((number, number) for number in numbers)]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return joined


def add_memory_block(
    state: MemoryState, messages: Sequence[BaseMessage], question: BaseMessage, block: Block
) -> MemoryState:
    """Return the state with the memory block of a question.

    Blocks of messages that are not there go: a call that failed has left its question nowhere.
    """
    there = {message.id for message in with_ids(messages)}
    blocks = {key: known for key, known in state["blocks"].items() if key in there}
    key = question.id or ""
    # Working notes that stand in front of it already stay.
    asked: Block = {**blocks.get(key, block), **block, "question": _question_digest(question)}
    return {**state, "blocks": {**blocks, key: asked}}
