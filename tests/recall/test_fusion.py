"""One ranking of two: the floor on raw signals, and messages whose vector is still missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings
from langchain_tokenmem.recall.fusion import Floor, fused
from langchain_tokenmem.recall.words import Scores
from tests.recall.talk import FILLER, talk


def words(*rows: tuple[int, float, float, int], known: float = 1.0) -> Scores:
    """Units with score, share and count of own terms."""
    units = np.array([row[0] for row in rows], np.int64)
    columns = [np.array([row[at] for row in rows], np.float64) for at in (1, 2, 3)]
    return Scores(units, columns[0], columns[1], columns[2], known)


def ranked(lexical, meaning=(), floor=None, lacking=()):
    ranking = fused(
        lexical,
        meaning,
        lexical_weight=0.4,
        dense_weight=0.6,
        floor=floor or Floor(),
        lacking=lacking,
    )
    return dict(zip(ranking.units.tolist(), ranking.scores.tolist(), strict=True))


@pytest.mark.parametrize(
    ("share", "count", "known", "passes"),
    [
        (0.2, 2, 0.0, True),
        (0.19, 2, 0.9, False),
        (0.5, 1, 0.5, True),
        (0.5, 1, 0.4, False),
        (0.23, 1, 1.0, True),
        (0.21, 1, 1.0, False),
    ],
)
def test_words_let_a_question_through(share, count, known, passes):
    found = ranked(words((1, 5.0, share, count), (2, 1.0, 0.02, 0), known=known))
    assert set(found) == ({1, 2} if passes else set())


@pytest.mark.parametrize(
    ("best", "floor", "passes"),
    [(0.31, Floor(), True), (0.29, Floor(), False), (-0.5, Floor(cosine=None), True)],
)
def test_meaning_lets_a_question_through(best, floor, passes):
    assert bool(ranked(words(), [(1, best)], floor)) is passes


def test_where_meaning_answers_too_words_must_be_stronger():
    short = words((1, 5.0, 0.48, 1), known=0.48)
    assert set(ranked(short)) == {1}
    assert ranked(short, [(1, 0.2), (2, 0.1)]) == {}
    assert 1 in ranked(short, [(1, 0.35), (2, 0.1)])


def test_behind_the_gate_nearly_everything_counts():
    found = ranked(words((1, 5.0, 0.9, 3), (2, 1.0, 0.02, 1)), [(3, 0.2), (4, 0.05), (1, 0.4)])
    assert set(found) == {1, 2, 3}


def test_what_has_no_vector_yet_stands_among_the_others_as_its_words_do():
    lexical = words((1, 8.0, 0.8, 2), (2, 8.0, 0.8, 2), (3, 4.0, 0.4, 2), (4, 2.0, 0.2, 1))
    meaning = [(1, 0.9), (3, 0.6), (4, 0.3)]
    behind, fair = ranked(lexical, meaning), ranked(lexical, meaning, lacking={2})
    assert behind[2] < behind[3]
    assert fair[1] == pytest.approx(fair[2])
    assert fair[2] > fair[3] > fair[4]


@given(
    st.lists(st.tuples(st.floats(0.1, 9), st.booleans()), min_size=2, max_size=20),
    st.integers(0, 9),
)
def test_a_missing_vector_never_puts_better_words_behind_worse_ones_without_vector(rows, seed):
    random = np.random.default_rng(seed)
    lexical = words(*((unit, value, 0.5, 2) for unit, (value, _) in enumerate(rows)))
    lacking = {unit for unit, (_, is_owed) in enumerate(rows) if is_owed}
    meaning = [(u, float(random.uniform(0, 1))) for u in range(len(rows)) if u not in lacking]
    found = ranked(lexical, meaning, lacking=lacking)
    best = max(value for value, _ in rows)
    for unit in lacking:
        assert found[unit] == pytest.approx(rows[unit][0] / best)


@pytest.mark.slow
def test_a_message_that_waits_for_its_vector_is_found_as_before(tmp_path, monkeypatch):
    chroma = ChromaIndex(tmp_path / "chroma", embeddings=HashingEmbeddings(64))
    with (
        TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store,
        Recall(store, chroma) as recall,
    ):
        store.add("s", talk(*FILLER, "The spare tyre is in the garage.", *FILLER))
        recall.index()
        monkeypatch.setattr(recall._dense, "wake", lambda _change: None)
        monkeypatch.setattr(recall._dense._worker, "wake", lambda: None)
        assert recall._dense._worker.wait(30)  # woken by the first messages, it may still be there
        store.add("s", [HumanMessage("The spare key is in the red drawer.", id="new")])
        assert recall.backlog()["vectors"] == 1
        found = recall.search("Where is the spare key?", session_id="s", k=2)
        assert [(hit.message_id, hit.cosine) for hit in found[:1]] == [("new", None)]
        recall.index()
        again = recall.search("Where is the spare key?", session_id="s", k=1)
        assert again[0].message_id == "new"
        assert again[0].cosine is not None


@pytest.mark.slow
def test_scores_do_not_depend_on_how_many_are_wanted(tmp_path):
    chroma = ChromaIndex(tmp_path / "chroma", embeddings=HashingEmbeddings(64))
    with TranscriptStore("sqlite://") as store, Recall(store, chroma) as recall:
        said = [f"report {n} of thing {n % 7} on shelf {n % 11}" for n in range(300)]
        store.add("s", [HumanMessage(text, id=f"m{n}") for n, text in enumerate(said)])
        recall.index()
        many = recall.search("report of thing 3 on shelf 5", session_id="s", k=290)
        few = recall.search("report of thing 3 on shelf 5", session_id="s", k=3)
        assert len(many) > 200
        assert {hit.message_id: hit.score for hit in few}.items() <= {
            hit.message_id: hit.score for hit in many
        }.items()
