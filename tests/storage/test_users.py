"""A session's owner alone reads and writes it; who must name the user, and where."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.state import new_state
from tests.summarize.models import Scripted

USERS = {"ann": "quokka", "bob": "walrus"}

Call = Callable[[TranscriptStore, str, str | None], Any]


def _searched(store: TranscriptStore, session: str, user: str | None) -> Any:
    recall = Recall(store)
    scope = "session" if user is None else "user"
    found = recall.search("quokka walrus secret", session_id=session, user_id=user, scope=scope)
    return found, recall.history_search("secret", session_id=session, user_id=user)


def _chained(store: TranscriptStore, session: str, user: str | None) -> Any:
    chain = with_token_memory(Scripted(answer=str), TokenMemory(2_000), store)
    owner = {"session_id": session, "user_id": user}
    return chain.invoke("What is secret?", {"configurable": owner})


READS: dict[str, Call] = {
    "rows": lambda s, i, u: s.rows(i, user_id=u, include_superseded=True),
    "messages": lambda s, i, u: s.messages(i, user_id=u),
    "conversation": lambda s, i, u: s.conversation(i, user_id=u),
    "turn_up_to": lambda s, i, u: s.turn_up_to(i, f"m-{i}", user_id=u),
    "last": lambda s, i, u: s.last(i, 2, user_id=u),
    "get": lambda s, i, u: s.get(i, f"m-{i}", user_id=u),
    "named": lambda s, i, u: s.named(i, [f"m-{i}"], user_id=u),
    "count": lambda s, i, u: s.count(i, user_id=u),
    "state": lambda s, i, u: s.state(i, user_id=u),
    "settings": lambda s, i, u: s.settings(i, user_id=u),
    "export": lambda s, i, u: list(s.export_session(i, user_id=u)),
    "search": _searched,
    "history": lambda s, i, u: TokenMemoryChatHistory(i, store=s, user_id=u).messages,
}
WRITES: dict[str, Call] = {
    "add": lambda s, i, u: s.add(i, [HumanMessage("more")], user_id=u),
    "save_state": lambda s, i, u: s.save_state(i, new_state(), expected=0, user_id=u),
    "set_budget": lambda s, i, u: s.set_budget(i, TokenBudget(4_000), user_id=u),
    "lease": lambda s, i, u: s.lease(i, "me", 1.0, user_id=u),
    "keep": lambda s, i, u: s.keep_session(i, user_id=u),
    "edit": lambda s, i, u: s.edit(i, f"m-{i}", HumanMessage("secret"), user_id=u),
    "hide": lambda s, i, u: s.hide(i, [f"m-{i}"], user_id=u),
    "clear": lambda s, i, u: s.clear(i, user_id=u),
    "erase": lambda s, i, u: s.erase(i, u),
    "redact": lambda s, i, u: s.redact("secret", session_id=i, user_id=u),
    "documents": lambda s, i, u: Recall(s).add_documents([Document("x")], session_id=i, user_id=u),
    "import": lambda s, i, u: s.import_history([("human", "hi")], i, user_id=u),
    "chain": _chained,
}
CALLS = READS | WRITES


def fill(store: TranscriptStore, sessions: int = 3) -> None:
    for user, word in USERS.items():
        for number in range(sessions):
            name = f"{user}-{number}"
            said = [HumanMessage(f"secret {word} {number}", id=f"m-{name}"), AIMessage(word)]
            store.add(name, said, user_id=user)


def texts_of(store: TranscriptStore, user: str) -> dict[str, list[Any]]:
    names = store.sessions(user_id=user)
    return {n: [m.content for m in store.messages(n, user_id=user)] for n in names}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("rule", ["default", "require_user"])
def test_a_call_that_does_not_name_the_owner_of_a_session_is_refused(name: str, rule: str):
    with TranscriptStore("sqlite://", require_user=rule == "require_user") as store:
        fill(store)
        for user, says in ((None, "user_id="), ("bob", "another user")):
            with pytest.raises(ScopeError, match=says):
                CALLS[name](store, "ann-0", user)
        for user, word in USERS.items():
            said = {f"{user}-{n}": [f"secret {word} {n}", word] for n in range(3)}
            assert texts_of(store, user) == said
        assert USERS["bob"] not in repr(CALLS[name](store, "ann-0", "ann"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_new_session_needs_a_user_only_where_that_is_required(name: str):
    with TranscriptStore("sqlite://", require_user=True) as store:
        with pytest.raises(ScopeError, match="require_user"):
            CALLS[name](store, "nobody", None)
        assert store.sessions() == []
    with TranscriptStore("sqlite://") as store:
        store.add("nobody", [HumanMessage("secret", id="m-nobody")])
        CALLS[name](store, "nobody", None)


def test_a_shared_store_serves_calls_without_a_user_and_refuses_other_users():
    with TranscriptStore("sqlite://", shared=True) as store:
        fill(store)
        assert store.messages("ann-0")
        with pytest.raises(ScopeError, match="another user"):
            store.messages("ann-0", user_id="bob")
    with pytest.raises(ConfigurationError, match="exclude"):
        TranscriptStore("sqlite://", shared=True, require_user=True)
