"""Recall on PostgreSQL and on SQLite: the same hits, in the same order, with the same scores."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.core.search_units import Scope

TOPICS = (
    "copper lamp",
    "northern harbour",
    "ERR-4711",
    "auth.py",
    "我们搬到法兰克福",
    "birthday cake",
)


def said(store: TranscriptStore, recall: Recall) -> None:
    for session in range(6):
        messages = [
            (HumanMessage if n % 2 else AIMessage)(
                f"On day {n} of {session} we spoke of {TOPICS[(n * 7 + session) % 6]}, NUL \x00",
                id=f"{session}-{n}",
                name=("Ann", "Bob")[n % 2],
            )
            for n in range(40)
        ]
        store.add(f"s{session}", messages[:25], user_id=f"u{session % 2}")
        store.add(f"s{session}", messages[25:], user_id=f"u{session % 2}")
    recall.add_documents([Document("The copper lamp is in the attic.", id="d")], user_id="u0")
    recall.add_documents([Document("The cake of ERR-4711.", id="e")], session_id="s1")
    recall.add_documents([Document("The cake of the harbour.", id="e")], session_id="s1")


def found(recall: Recall) -> list[object]:
    hits = []
    for query in (*TOPICS, "What did Ann say about the lamp?", "harbour cake", "nothing of it"):
        for session in ("s0", "s1", "nobody"):
            hits.append(recall.search(query, session_id=session, k=10))
            user = "u1" if session == "s1" else "u0"
            hits.append(recall.search(query, session_id=session, user_id=user, scope="user", k=30))
    return [
        [(hit.message_id, hit.session_id, hit.text, round(hit.score, 9)) for hit in each]
        for each in hits
    ]


def test_the_same_hits_on_both(postgres, tmp_path):
    with (
        TranscriptStore(f"sqlite:///{tmp_path}/memory.db", shared=True) as one,
        TranscriptStore(postgres, shared=True) as two,
    ):
        recalls = Recall(one), Recall(two)
        for store, recall in zip((one, two), recalls, strict=True):
            said(store, recall)
        first, second = map(found, recalls)
        assert first == second
        assert sum(map(len, first)) > 200
        assert recalls[1].rebuild() == recalls[0].rebuild() == 6 * 40 + 2
        assert found(recalls[1]) == first
        counts = [recall.erase(user_id="u0") for recall in recalls]
        assert counts[0] == counts[1]
        assert found(recalls[0]) == found(recalls[1])
        assert [store.clear("s1") for store in (one, two)] == [40, 40]
        assert found(recalls[0]) == found(recalls[1])


def test_many_writers_index_every_message(url):
    with TranscriptStore(url, shared=True) as store:
        recall = Recall(store)

        def write(writer: int) -> None:
            for n in range(20):
                message = HumanMessage(f"lamp {writer} {n}", id=f"{writer}-{n}")
                store.add(f"s{writer % 3}", [message], user_id="u")
                recall.add_documents([Document(f"lamp {n}", id=f"{n}")], user_id="u")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(write, range(6)))
        assert recall.backlog() == {"lexical": 0}
        with store.index.reading(Scope("s0", "u", whole_user=True)) as reader:
            assert reader.totals()[0] == 6 * 20 + 20
            assert reader.counts(["lamp"]) == {"lamp": 6 * 20 + 20}


def test_stores_that_start_at_once_make_one_index(postgres):
    with TranscriptStore(postgres) as first:
        assert first.sessions() == []  # the tables are there, the index is not
    stores = [TranscriptStore(postgres, shared=True) for _ in range(8)]
    together = Barrier(len(stores))

    def begin(number: int) -> None:
        Recall(stores[number])
        stores[number].sessions()  # connected
        together.wait(30)
        stores[number].add(f"s{number}", [HumanMessage(f"A copper lamp, number {number}.")])

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(begin, range(len(stores))))
    for number, store in enumerate(stores):
        assert len(Recall(store).search("copper lamp", session_id=f"s{number}", k=3)) == 1
        store.close()
