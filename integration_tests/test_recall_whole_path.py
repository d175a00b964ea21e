"""The whole path: what was said long ago stands in the request when it is asked for."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages
from langchain_core.runnables import RunnableLambda

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings

WINDOW = 4_000
TURNS = 110

# What the user says once, early, and how it is asked for at the end.
SECRETS = {
    "The alarm of the boathouse is switched off with 7391.": "How do I switch off the boathouse "
    "alarm?",
    "My sister Oda is allergic to penicillin.": "Which medicine is my sister Oda allergic to?",
    "The deposit for the cabin in Skagen was 480 euros.": "How high was the deposit for the cabin "
    "in Skagen?",
    "The staging database lives in /srv/pg/stage17.": "Where does the staging database live?",
    "我的自行车锁密码是三七九二。": "自行车锁的密码是什么?",
}

_TALK = (
    "The bread turned out a little dry this morning, so we toasted all of it and ate it with jam.",
    "I went through the slides again and moved the third one to the end, where it reads better.",
    "The tram was late, and the driver told everybody about his garden until the lights changed.",
    "They repaired the lift at last, although it still makes that sound on the way down.",
)


def conversation() -> list[BaseMessage]:
    """Return a long conversation with the secrets in its first fifth."""
    said: list[BaseMessage] = []
    secrets = list(SECRETS)
    for turn in range(TURNS):
        is_secret = turn % 5 == 3 and turn // 5 < len(secrets)
        text = secrets[turn // 5] if is_secret else f"{_TALK[turn % 4]} That was day {turn}."
        said += [HumanMessage(text), AIMessage(f"I see. {_TALK[(turn + 1) % 4]}")]
    return said


class SeenError(Exception):
    """The model has seen its request."""


@pytest.fixture(params=["words", "vectors"])
def recall(request, tmp_path):
    vectors = HashingEmbeddings(dim=256)
    chroma = (
        None if request.param == "words" else ChromaIndex(tmp_path / "chroma", embeddings=vectors)
    )
    with (
        TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store,
        Recall(store, chroma) as opened,
    ):
        yield opened


def test_what_was_said_long_ago_is_in_the_request(recall):
    budget = TokenBudget(context_window=WINDOW)
    memory = TokenMemory(budget, recall=recall)
    said = conversation()
    for at in range(0, len(said), 2):
        history = TokenMemoryChatHistory("s", memory=memory, store=recall.store)
        history.add_messages(said[at : at + 1])
        assert memory.count(history.messages).tokens <= budget.limit
        history.add_messages(said[at + 1 : at + 2])
    recall.index()

    recalled = kept = 0
    for secret, question in SECRETS.items():
        history = TokenMemoryChatHistory("s", memory=memory, store=recall.store)
        history.add_messages([HumanMessage(question)])
        request = history.messages
        newest = text_of(request[-1])
        # In its own block, or in one of an earlier question that still stands.
        recalled += secret in "\n".join(map(text_of, request))
        assert question in newest
        assert memory.count(request).tokens <= budget.limit
        history.add_messages([AIMessage("Let me see.")])
        trimmed = trim_messages(
            [*said, HumanMessage(question)],
            max_tokens=budget.limit,
            token_counter=lambda messages: memory.count(messages).tokens,
            strategy="last",
        )
        kept += any(secret in text_of(message) for message in trimmed)
    print(f"of {len(SECRETS)} answers in the request: {recalled}, by trim_messages {kept}")
    assert kept == 0
    assert recalled == len(SECRETS)

    stored = recall.store.messages("s")
    assert [text_of(message) for message in stored][: len(said)] == [text_of(m) for m in said]
    assert not any("recalled" in text_of(message) for message in stored)


def test_a_call_that_fails_takes_nothing_from_its_retry(recall):
    memory = TokenMemory(TokenBudget(context_window=WINDOW), recall=recall)
    history = TokenMemoryChatHistory("s", memory=memory, store=recall.store)
    history.add_messages(conversation())
    recall.index()
    history.compact()
    secret, question = next(iter(SECRETS.items()))
    seen: list[bool] = []

    def model(messages: list[BaseMessage]) -> str:
        seen.append(secret in text_of(messages[-1]))
        raise SeenError

    chain = with_token_memory(RunnableLambda(model), memory, recall.store)
    for _ in range(3):
        with pytest.raises(SeenError):
            chain.invoke(question, {"configurable": {"session_id": "s"}})
    assert seen == [True, True, True]
