"""20,000 random calls on 200 sessions: neither of two users sees or changes the other's words."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import ScopeError, StoreError
from tests.storage.test_users import CALLS, USERS, fill, texts_of

SESSIONS, CALLS_MADE = 200, 5_000


@pytest.mark.parametrize("rule", [{}, {"require_user": True}], ids=["default", "require_user"])
def test_no_call_gives_or_changes_a_word_of_the_other_user(rule: dict[str, bool], tmp_path: Path):
    draw = random.Random(35)
    names = [name for name in CALLS if name not in {"erase", "redact"}]
    outcomes = {"answered": 0, "refused": 0}
    with TranscriptStore(tmp_path / "memory.db", **rule) as store:
        fill(store, SESSIONS // len(USERS))
        own = {user: texts_of(store, user) for user in USERS}
        assert sum(map(len, own.values())) == SESSIONS
        for _ in range(CALLS_MADE):
            name = draw.choice(names)
            owner, asking = draw.choice([*USERS]), draw.choice([*USERS, None])
            session = f"{owner}-{draw.randrange(SESSIONS // len(USERS))}"
            try:
                answer = repr(CALLS[name](store, session, asking))
            except ScopeError:
                assert asking != owner, (name, session)
                outcomes["refused"] += 1
                continue
            except StoreError:
                assert asking == owner, (name, session, "only the owner gets this far")
                continue
            outcomes["answered"] += 1
            assert asking == owner, (name, session, asking)
            for other in USERS.keys() - {asking}:
                assert USERS[other] not in answer, (name, session)
        for user, word in USERS.items():
            said = repr(texts_of(store, user))
            assert all(other not in said for other in USERS.values() if other != word)
    assert outcomes["refused"] > CALLS_MADE / 2
    assert outcomes["answered"] > CALLS_MADE / 4
