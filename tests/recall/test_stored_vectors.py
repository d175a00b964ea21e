"""Vectors without any index beside the store: `Recall(store, embeddings=...)`."""

import logging
import sys
from datetime import timedelta
from typing import NoReturn

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage

from langchain_tokenmem import Recall
from langchain_tokenmem.background import TimedCalls, waiting_at_most
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall import HashingEmbeddings
from tests.recall.samples import NOON, CountingEmbeddings, days

HOUR = timedelta(hours=1)

CAR = "My automobile is red."


def meaning(texts: list[str]) -> list[list[float]]:
    """A model that knows that a car is an automobile."""
    return [
        [1.0, 0.1, 0.0] if "car" in text or "automobile" in text else [0.0, 0.1, float(len(text))]
        for text in texts
    ]


async def awaited_meaning(texts: list[str]) -> list[list[float]]:
    return meaning(texts)


@pytest.mark.parametrize("function", [meaning, awaited_meaning])
async def test_a_function_finds_by_meaning_without_chroma(store, function, monkeypatch):
    monkeypatch.setitem(sys.modules, "chromadb", None)  # its import raises
    with Recall(store, embeddings=function) as recall:
        store.add("s", [HumanMessage(CAR)])
        await recall.aindex()
        assert [hit.text for hit in recall.search("which car?", session_id="s")] == [CAR]
        assert [hit.text for hit in await recall.asearch("which car?", session_id="s")] == [CAR]
        assert recall.backlog() == {"lexical": 0, "vectors": 0}


@pytest.mark.slow
def test_a_narrow_search_by_meaning_looks_at_all_that_it_may_find(store):
    with Recall(store, embeddings=meaning) as recall:
        recall._dense._exact_most = 60
        near = [HumanMessage(f"The car number {n}", id=f"m{n}") for n in range(60)]
        store.add("s", near, now=NOON)
        store.add("s", [HumanMessage("My car at the harbour", id="m")], now=NOON + HOUR)
        manual = Document("A car floats.", id="d", metadata={"kind": "manual"})
        recall.add_documents([manual], session_id="s")
        recall.index()
        for option, wanted in (
            ({"among": {"m"}}, "My car"),
            ({"filter": {"kind": "manual"}}, "A car floats."),
            ({"after": NOON + HOUR}, "My car"),
        ):
            hits = recall.search("an automobile?", session_id="s", **option)
            assert any(wanted in hit.text for hit in hits)
            assert "number" not in str(hits)


def test_what_is_no_embedding_model_or_index_is_refused_at_construction(store):
    model = HashingEmbeddings(8)
    models = ("no-such-model", "noprovider:model", 7, HashingEmbeddings, [0.1])
    for given, error in (
        *(({"embeddings": one}, "embeddings is") for one in models),
        *(({"chroma": one}, "not a recall index") for one in (object(), "./chroma", model)),
        ({"embeddings": model, "on_model_change": "ask"}, "on_model_change"),
    ):
        with pytest.raises(ConfigurationError, match=error):
            Recall(store, **given)


OTHERS = [CountingEmbeddings(64, name="new"), CountingEmbeddings(32, salt="x", name="old")]


@pytest.fixture
def indexed(store):
    """Index five messages by the model `old`."""
    store.add("s", days(5))
    with Recall(store, embeddings=CountingEmbeddings(name="old")) as recall:
        recall.index()


@pytest.mark.slow
@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize("other", OTHERS, ids=["another size", "other vectors"])
def test_another_model_is_refused_and_a_rebuild_heals_it(store, other):
    with Recall(store, embeddings=other) as recall:
        with pytest.raises(RecallError, match=rf"old .*{other.model} .*recall\.rebuild\(\)"):
            recall.index()
        assert other.texts == []
        assert recall.rebuild() == 10  # words and vectors
        assert recall.search("day number3", session_id="s", k=1)[0].cosine is not None


@pytest.mark.usefixtures("indexed")
def test_on_model_change_rebuild_embeds_everything_anew_behind_the_turn(store, caplog):
    other = CountingEmbeddings(64, name="new")
    with (
        caplog.at_level(logging.WARNING),
        Recall(store, embeddings=other, on_model_change="rebuild") as recall,
    ):
        recall._dense._worker.wait(20)
        recall.index()
        assert sorted(other.texts) == sorted(message.text for message in days(5))
        assert recall.search("day number3", session_id="s", k=1)[0].cosine is not None
    assert caplog.text.count("now makes new ones") == 1
    alias = CountingEmbeddings(64, name="provider/new")  # another name, the same model
    with Recall(store, embeddings=alias, on_model_change="rebuild") as recall:
        recall.index()
    assert (len(other.texts), alias.texts) == (5, [])  # once for good


def test_a_model_that_hangs_leaves_a_turn_half_of_its_time_to_search_by_words(store, monkeypatch):
    waits: list[float] = []

    def hang(_calls: TimedCalls, _call: object, seconds: float) -> NoReturn:
        waits.append(seconds)
        raise TimeoutError("no answer")

    store.add("s", [HumanMessage(CAR)])
    with Recall(store, embeddings=meaning) as recall, waiting_at_most(8):
        recall.index()
        monkeypatch.setattr(TimedCalls, "run", hang)
        (hit,) = recall.search("Which automobile is red?", session_id="s")
    assert hit.text == CAR
    assert 0 < max(waits) <= 4
