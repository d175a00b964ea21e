"""The commands that look at sessions, from outside, on every kind of source."""

import json
import sqlite3
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState
from typer.testing import CliRunner

from langchain_tokenmem import (
    Recall,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.cli.app import app
from langchain_tokenmem.core.chat_models import MIN_CONTEXT_WINDOW
from tests.adapters.integrations import at, graph_of, put, session, thread
from tests.cli.command import ran as at_full_width
from tests.contract.chats import Talker

RECORDED = Path(__file__).parents[2] / "examples" / "recorded_agent.jsonl"


ran = partial(at_full_width, COLUMNS="80")


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "memory.db"
    with TranscriptStore(f"sqlite:///{path}") as opened:
        for day, name, owner in ((1, "s1", "ann"), (2, "s2", "bob"), (3, "other", None)):
            when = datetime(2026, 5, day, tzinfo=UTC).isoformat()
            said = HumanMessage(
                f"Question of {name} [red]\x1b[31m about lighthouses",
                response_metadata={"tokenmem": {"created_at": when}},
            )
            opened.add(name, [said, AIMessage("An answer. " * 40)], user_id=owner)
    return path


def test_sessions_are_listed_in_eighty_columns_the_newest_first_by_page_and_filter(store):
    lines = ran("sessions", store).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[0:6:2]] == ["other", "s2", "s1"]
    assert lines[0].endswith("about lighthouses")
    assert "ann" in "".join(lines)
    assert lines[-1] == "3 sessions."
    assert "\x1b" not in "".join(lines)
    assert "2 sessions, page 1; more: --page 2" in ran("sessions", store, "--size", 2)
    for options, names in (
        (("--size", 2), ["other", "s2"]),
        (("--size", 2, "--page", 2), ["s1"]),
        (("--filter", "BOB"), ["s2"]),
        (("--filter", "%"), []),
        (("--user", "ann"), ["s1"]),
    ):
        found = json.loads(ran("sessions", store, "--json", *options))["sessions"]
        assert [one["session"] for one in found] == names
    assert (found[0]["messages"], found[0]["tokens"] > 80) == (2, True)


def test_the_title_of_a_session_is_the_question_of_its_first_prompt(tmp_path):
    path = tmp_path / "memory.db"
    prompt = f"<context>\n{'Refunds take a month. ' * 40}\n</context>\nCan they be faster?"
    with TranscriptStore(path) as opened:
        opened.add("s1", [HumanMessage(prompt)])
    assert ran("sessions", path).splitlines()[0] == "s1  Can they be faster?"


@pytest.mark.slow
def test_show_prints_rows_or_whole_messages_or_says_that_there_are_none(store, tmp_path):
    rows = ran("show", store, "s1").splitlines()
    assert max(map(len, rows)) <= 80
    assert rows[1].split()[:2] == ["1", "user"]
    whole = ran("show", store, "s1", "--full")
    assert " ".join(whole.split()).count("An answer.") == 40
    assert "[red]?[31m" in whole
    (first, _) = json.loads(ran("show", store, "s1", "--json"))["messages"]
    assert first["role"] == "human"
    with TranscriptStore(f"sqlite:///{store}", shared=True) as opened:
        opened.clear("s1")
    assert "0 messages" in ran("show", store, "s1")
    assert "no messages" in ran("explain", store, "s1", code=2)
    page = tmp_path / "page.html"
    ran("show", store, "s1", "--html", page)
    ran("show", store, "s1", "--html", store, "--force", code=2)
    assert '"calls":[]' in page.read_text()
    assert "tokenmem sessions" in ran("show", store, "nope", code=2)
    ran("sessions", tmp_path / "nowhere.db", code=2)


def test_spaces_and_joiners_of_a_text_are_printed_and_what_reverses_a_line_is_not(tmp_path):
    path = tmp_path / "memory.db"
    text = "Combien\u00a0? 1\u202f000\u00a0€, 東京\u3000タワー, \u06cc\u200c\u062e, 👩\u200d👧"
    with TranscriptStore(f"sqlite:///{path}") as opened:
        opened.add("s\u00a01", [HumanMessage(f"{text}\u202e\u2028.")])
    assert f"{text}??." in ran("show", path, "s\u00a01", "--full")
    assert "s\u00a01" in ran("sessions", path)


@pytest.mark.parametrize("command", ["sessions", "show", "explain"])
def test_an_output_that_lacks_characters_shows_question_marks(tmp_path, command):
    path = tmp_path / "memory.db"
    with TranscriptStore(f"sqlite:///{path}") as opened:
        opened.add("s1", [HumanMessage("東京 tower")])
    words = [command, str(path), *(["s1"] if command != "sessions" else [])]
    done = CliRunner(charset="ascii").invoke(app, words)
    assert (done.exit_code, "?" in done.output) == (0, True)


@pytest.mark.slow
def test_search_finds_by_words_or_leaves_with_one(store):
    assert "s1 #1 user" in ran("search", store, "lighthouses", "--session", "s1")
    hits = json.loads(ran("search", store, "lighthouses", "--json"))
    assert {hit["session_id"] for hit in hits} == {"s1", "s2", "other"}
    ran("search", store, "zeppelin", code=1)


@pytest.mark.slow
def test_a_sub_graph_is_named_so_that_it_can_be_typed(store):
    with TranscriptStore(f"sqlite:///{store}") as opened:
        opened.add("t1\x1fchild", [HumanMessage("Inside?"), AIMessage("Inside.")])
    assert "t1␟child  Inside?" in ran("sessions", store)
    assert "Inside." in ran("show", store, "t1␟child")
    assert "Call 2 of " in ran("explain", store, "t1␟child")


def dump(path):
    raw = sqlite3.connect(path)
    lines = [*raw.iterdump()]
    raw.close()
    return lines


@pytest.mark.slow
def test_looking_changes_nothing(store, tmp_path):
    before = dump(store)
    ran("sessions", store)
    ran("stats", store)
    for command in ("show", "view", "explain"):
        ran(command, store, "s1")
    ran("show", store, "s1", "--html", tmp_path / "page.html")
    assert dump(store) == before
    ran("search", store, "lighthouses")  # it completes the index of words
    own = 'INSERT INTO "tokenmem_messages"'
    stored = [line for line in dump(store) if line.startswith(own)]
    assert stored == [line for line in before if line.startswith(own)]
    assert len(stored) == 6


class Answer(Decimal):
    """A type of the application's own, which a process that only looks does not load."""


class Question(HumanMessage):
    """A message of the application's own class."""


class Answered(MessagesState):
    structured_response: Answer


@pytest.mark.slow
@pytest.mark.parametrize("ours", [True, False])
def test_a_state_with_types_of_the_application_can_be_looked_at(tmp_path, ours):
    path = tmp_path / "threads.db"
    update = {"messages": AIMessage("In 1889."), "structured_response": Answer(1889)}
    with TranscriptStore(path) if ours else SqliteSaver.from_conn_string(str(path)) as opened:
        saver = TokenMemorySaver(opened, allowed_types=[Answer]) if ours else opened
        graph = graph_of(lambda _: update, saver=saver, schema=Answered)
        graph.invoke({"messages": Question("When?")}, thread("paris"))
    (one,) = json.loads(ran("sessions", path, "--json"))["sessions"]
    assert (one["session"], one["messages"], one["title"]) == ("paris", 2, "When?")
    for command in ("show", "view"):
        shown = ran(command, path, "paris")
        assert "When?" in shown
        assert "In 1889." in shown
    assert "Call 2 of 'paris'" in ran("explain", path, "paris")
    assert "messages" in ran("stats", path)
    if ours:
        assert "nothing is wrong" in ran("doctor", path)


# --- calls


@pytest.fixture
def agent_run(tmp_path):
    """Return a store with sixteen calls of an agent, and what each was sent."""
    path = tmp_path / "agent.db"
    # It asks about what is hidden, so that recall brings blocks in.
    model = Talker(answer=[f"Answer {n}: " + "the lighthouse burns. " * 30 for n in range(16)])
    with TranscriptStore(f"sqlite:///{path}") as opened:
        memory = TokenMemory(1_200, recall=Recall(opened))
        agent = create_agent(
            model, middleware=[TokenMemoryMiddleware(memory)], checkpointer=TokenMemorySaver(opened)
        )
        for n in range(16):
            question = f"Question {n} of the keeper: what was answer {n // 2}?"
            agent.invoke({"messages": question}, thread("t1"))
    return path, model.requests


@pytest.mark.slow
def test_the_calls_of_an_agent_are_those_that_were_sent_with_what_was_hidden_and_why(agent_run):
    path, sent = agent_run
    for number in (1, 2, 9, 15, 16):
        found = json.loads(ran("view", path, "t1", "--at", number, "--json"))
        texts = "".join(one["text"] for one in found["items"])
        wanted = "".join(message.text for message in sent[number - 1])
        assert "".join(texts.split()) == "".join(wanted.split())
        assert "window 1,200, that of its newest compaction" in found["origin"]
    recalled = [one["from"] for one in found["items"] if one["kind"] == "memory"]
    assert all(place < 32 and 0 < score < 2 for one in recalled for place, score in one)
    assert recalled
    assert all(recalled)
    found = json.loads(ran("explain", path, "t1", "--json"))
    parts = found["parts"]["children"]
    assert sum(part["tokens"] for part in parts) == found["tokens"] <= found["limit"]
    assert found["hidden"]["summarized"][0]["messages"] > 0
    first, *_, last = calls = [ran("explain", path, "t1", "--call", n) for n in range(1, 17)]
    changed = [one for one in calls if "Changed before this call: nothing." not in one]
    assert 2 <= sum(" summarized (" in one for one in changed) <= len(changed) < len(calls)
    assert max(len(line) for one in calls for line in one.splitlines()) <= 80
    assert "Summarized: " in last
    assert "Nothing is hidden." in first


@pytest.mark.slow
def test_the_next_call_after_a_fork_has_its_messages_and_the_budget_of_the_other_branch(agent_run):
    path, _ = agent_run
    with TranscriptStore(path) as opened:
        agent = graph_of(lambda _: {}, saver=TokenMemorySaver(opened))
        history = agent.get_state_history(thread("t1"))
        first = [one for one in history if one.values.get("messages")][-1]
        other = {"messages": AIMessage("Another answer.")}
        agent.update_state(first.config, other, as_node="model")
    found = json.loads(ran("explain", path, "t1", "--json"))
    assert "window 1,200, that of its newest compaction" in found["origin"]
    assert [one["data"]["content"] for one in found["messages"]][1:] == ["Another answer."]


@pytest.mark.slow
def test_calls_of_a_recording_are_played_again():
    found = json.loads(ran("view", RECORDED, "recorded-agent", "-w", 6_000, "--json"))
    assert found["origin"].startswith("played again")
    assert found["parts"]["tools"] > 100
    rows = ran("view", RECORDED, "recorded-agent", "-w", 6_000, "--at", 20).splitlines()
    assert max(map(len, rows)) <= 80
    assert "summary" in "".join(rows)
    assert "1 to 25" in ran("view", RECORDED, "recorded-agent", "--at", 99, code=2)
    tiny = ran("view", RECORDED, "recorded-agent", "-w", MIN_CONTEXT_WINDOW - 1, code=2)
    assert str(MIN_CONTEXT_WINDOW) in tiny


@pytest.mark.slow
def test_past_calls_of_a_chain_are_played_again_under_its_own_budget(tmp_path):
    path = tmp_path / "chain.db"
    prompt = ChatPromptTemplate(
        [("system", "You know lighthouses. " * 9), ("placeholder", "{history}"), ("human", "{q}")]
    )
    answers = [f"Answer {n}: " + "it burns. " * (40 + n) for n in range(16)]
    model = Talker(answer=answers, name_="")  # counted by estimate, as when it is played again
    keys = {"input_messages_key": "q", "history_messages_key": "history"}
    with TranscriptStore(f"sqlite:///{path}") as opened, TokenMemory(1_200) as memory:
        chain = with_token_memory(prompt | model, memory, opened, **keys)
        for n in range(16):
            chain.invoke({"q": f"Is lamp {n} on?"}, session("c1"))
    for number in (2, 7, 11, 16):
        found = json.loads(ran("explain", path, "c1", "--call", number, "--json"))
        texts = [(m["type"], AIMessage(m["data"]["content"]).text) for m in found["messages"]]
        sent = [(m.type, m.text) for m in model.requests[number - 1]]
        assert texts[1:] == sent[2:], "but for the prompt and the first message"
        assert texts[0][1].startswith("Is lamp 0 on?")
        assert found["window"] == 1_200
    assert len(found["hidden"]["summarized"]) >= 1
    assert found["change"]["before"] > found["change"]["after"] > 0
    assert "Changed before this call: nothing." in ran("explain", path, "c1")


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        *(("sessions", "STORE"), ("show", "STORE", "s1"), ("view", "STORE", "s1")),
        *(("explain", "STORE", "s1"), ("search", "STORE", "lighthouses"), ("stats", "STORE")),
        *(("doctor", "STORE"), ("config",), ("expire", "STORE", "--inactive-days", "1")),
        ("replay", RECORDED, "--window", "8000"),
        *(("import", RECORDED, "NEW"), ("migrate-checkpoints", "SAVER", "NEW")),
        *(("erase", "STORE", "--session", "s1", "--yes"),),
        *(("redact", "STORE", "lighthouses", "--everywhere", "--yes"),),
    ],
    ids=lambda args: args[0],
)
def test_every_command_prints_json_and_nothing_else(store, tmp_path, args):
    saver_file = tmp_path / "theirs.db"
    if "SAVER" in args:
        with SqliteSaver.from_conn_string(str(saver_file)) as saver:
            put(saver, at(), values={"messages": [HumanMessage("Hi.")]})
    named = {"STORE": store, "NEW": f"sqlite:///{tmp_path}/new.db", "SAVER": saver_file}
    assert json.loads(ran(*(named.get(one, one) for one in args), "--json"))
