"""`TokenMemoryChatHistory`: a chat history whose messages always fit."""

import warnings

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_tokenmem import TokenMemoryChatHistory
from langchain_tokenmem.errors import StoreError
from tests.adapters.integrations import session, texts, turns
from tests.fakes import memory_of
from tests.summarize.models import Scripted

FENCE = "<conversation_summary"


@pytest.fixture
def memory():
    return memory_of()


@pytest.fixture
def history(memory, store):
    return TokenMemoryChatHistory("s", memory=memory, store=store)


def test_the_view_is_frozen_until_the_next_write(history, memory, store):
    history.add_messages(turns(6))
    before = history.messages
    other = TokenMemoryChatHistory("s", memory=memory, store=store)
    other.add_messages(turns(1, 99))
    other.compact()
    history.messages.append("mine")
    assert history.messages == before
    history.add_messages([HumanMessage("next")])
    assert history.messages != before
    history.clear()
    assert history.messages == history.full_history() == []


@pytest.mark.parametrize("how", ["edit", "redact", "hide", "erase"])
async def test_removed_text_is_in_no_later_read(how, history, store, memory):
    history.add_messages([HumanMessage("My card is K4111.", id="m"), AIMessage("Yes.")])
    assert "K4111" in str(history.messages)
    {
        "edit": lambda: store.edit("s", "m", HumanMessage("My card is lost.")),
        "redact": lambda: memory.redact("K4111", store=store, session_id="s"),
        "hide": lambda: store.hide("s", ["m"]),
        "erase": lambda: memory.erase(store, session_id="s"),
    }[how]()
    assert "K4111" not in str(await history.aget_messages())
    assert "K4111" not in str(history.messages)


def test_what_is_put_back_after_a_clear_has_its_own_words(history):
    """LangChain's way to trim a history: clear it, and add its newest messages again."""
    history.add_messages(turns(40))
    history.pin("Answer in French.")
    own, shown = history.full_history(), history.messages
    assert FENCE in str(shown)
    history.clear()
    history.add_messages(shown)
    by_id = {message.id: message.content for message in own}
    assert [m.content for m in history.full_history()] == [by_id[m.id] for m in shown]
    assert "Answer in French." not in str(history.messages)


# In `RunnableWithMessageHistory`


def test_a_commit_between_read_and_write_of_a_turn_loses_and_doubles_nothing(store, history):
    history.add_messages(turns(16))

    def answer(_messages):
        history.compact()
        return "fine"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated since langchain-core 1.3.3
        chain = RunnableWithMessageHistory(Scripted(answer=answer), lambda _: history)
    chain.invoke("new question", session())
    assert texts(store.messages("s")) == [*texts(turns(16)), "new question", "fine"]
    assert store.state("s").state["summary"]


def test_a_message_is_edited_an_answer_made_again_and_a_turn_deleted(history, store):
    history.add_messages(turns(3, words=2))
    history.edit("h1", "In Oslo?")
    assert "In Oslo?" in texts(history.messages)
    dropped = history.regenerate()
    assert [message.id for message in dropped] == ["a2"]
    assert [message.id for message in history.full_history()] == ["h0", "a0", "h1", "a1", "h2"]
    history.add_messages([AIMessage("again", id="a9")])
    assert [message.id for message in history.delete_turn("a0")] == ["h0", "a0"]
    assert [message.id for message in history.messages] == ["h1", "a1", "h2", "a9"]
    assert history.delete_turn("nothing") == []
    everything = history.full_history(include_superseded=True)
    assert {message.id for message in everything} == {"h0", "a0", "h1", "a1", "h2", "a2", "a9"}
    with pytest.raises(StoreError, match="no message"):
        history.edit("a2", "x")


def test_a_deleted_turn_is_in_no_summary(history, memory):
    history.add_messages(turns(12))
    history.compact(instruction="keep the numbers")
    assert memory.summarizer.requests[-1].instruction == "keep the numbers"
    assert "question 0" in str(history.messages)
    history.delete_turn("h0")
    assert "question 0" not in str(history.messages)


def test_what_fails_after_the_reply_fails_no_reply(store, caplog, monkeypatch):
    def locked(*_args, **_keywords):
        raise StoreError("The database is locked.")

    store.add("s", turns(26))
    monkeypatch.setattr(store, "conversation", locked)
    memory = memory_of(4_000, summarizer=Scripted())
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    history.add_messages([AIMessage("An answer. " * 180, id="long")])
    assert "is locked" in caplog.text
    assert store.messages("s")[-1].id == "long"
