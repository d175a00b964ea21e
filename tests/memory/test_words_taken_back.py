"""Words that were edited or hidden are in no summary, block or note, and in no later request."""

import re
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    CompactNode,
    MemoryMessagesState,
    MemoryNode,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemorySaver,
    TranscriptStore,
    memory_input,
    with_token_memory,
)
from langchain_tokenmem.state import new_state
from langchain_tokenmem.types import Shares
from tests.adapters.integrations import DOORS, contents, session, state_of, thread
from tests.fakes import CharCounter, ListSummarizer, entries_of, log_text, replacing
from tests.summarize.models import Scripted

BUDGET = TokenBudget(context_window=1_200)
NOTHING = "Nothing to see."


def secret(key):
    return f"/{key}.pem"


def talk(turns, start=0):
    """Return a conversation in which each message names another file."""
    found = []
    for turn in range(start, turns):
        found += [
            HumanMessage(f"We decided to name /h{turn}.pem. " + "A fine day. " * 12, id=f"h{turn}"),
            AIMessage(f"I wrote to /a{turn}.pem for you. " + "Calm sea. " * 12, id=f"a{turn}"),
        ]
    return found


def memory_of(budget=BUDGET, **keywords):
    return TokenMemory(budget, counter=CharCounter(), **keywords)


def pruned_graph(memory, saver):
    """Return a model, and a graph that removes the messages that its summary covers."""
    model = Scripted(answer="Yes.")
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": model.invoke(memory_input(state, memory))})
    builder.add_node("sum", MemoryNode(memory))
    builder.add_node("prune", CompactNode(memory, archive=saver.store, prune=True))
    builder.add_edge(START, "sum").add_edge("sum", "prune").add_edge("prune", "model")
    return model, builder.compile(checkpointer=saver)


class Door:
    """A thread of a graph with a memory; its saver hides removed messages."""

    def __init__(self, name, store, memory):
        make = {**DOORS, "prune": pruned_graph}[name]
        self.model, self.graph = make(memory, TokenMemorySaver(store, on_remove="hide"))

    def say(self, *messages):
        """Return the request that the model received."""
        self.graph.invoke({"messages": [*messages]}, thread())
        return contents(self.model.requests[-1])

    def change(self, *messages):
        self.graph.update_state(thread(), {"messages": [*messages]})

    def remove(self, *keys):
        self.change(*(RemoveMessage(id=key) for key in keys))

    def state(self):
        return state_of(self.graph) or new_state()


def kept(state):
    """Return all that a state says of its messages."""
    return str({key: state.get(key) for key in ("summary", "blocks", "modes", "turns", "pins")})


@pytest.mark.slow
@pytest.mark.parametrize("name", DOORS)
def test_a_trim_of_all_that_is_covered_leaves_no_summary_of_it(name, store):
    door = Door(name, store, memory_of())
    door.say(*talk(12))
    covered = door.state()["summary"]["covered"]
    gone = [m.id for m in talk(12)[: covered + 1]]
    door.remove(*gone)
    request = door.say(HumanMessage("And now?", id="now"))
    assert [key for key in gone if secret(key) in request + str(door.state())] == []
    assert door.state()["summary"] is None
    assert secret("a11") in request


@pytest.mark.slow
def test_messages_that_the_memory_prunes_itself_stay_in_the_summary(store):
    door = Door("prune", store, memory_of(summarizer=ListSummarizer()))
    door.say(*talk(12))
    before = entries_of(door.state())
    assert door.state()["pruned"]
    door.say(HumanMessage("And now?", id="now"))
    assert entries_of(door.state()) == before
    pointer = door.state()["summary"]["covers_to"]
    door.remove(pointer)
    request = door.say(HumanMessage("And then?", id="then"))
    assert secret(pointer) not in request
    assert [e["reason"] for e in entries_of(door.state()) if e not in before] == ["removed"]
    assert secret(door.state()["summary"]["covers_to"]) in log_text(door.state())


STEPS = st.tuples(st.sampled_from(["say", "remove", "edit"]), st.integers(0, 40))


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 4)
@example("prune", "code", [("say", 1), ("say", 1), ("edit", 0)])
@example("prune", "reasoning", [("say", 0), ("remove", 0), ("say", 0), ("edit", 0), ("say", 0)])
@given(
    st.sampled_from([*DOORS, "prune"]),
    st.sampled_from([None, "code", "conversation", "reasoning"]),
    st.lists(STEPS, min_size=2, max_size=8),
)
def test_no_request_and_no_state_of_any_door_has_words_that_the_thread_hides(name, mode, steps):
    with TranscriptStore("sqlite://") as store:
        door, gone = Door(name, store, memory_of(mode=mode)), set()
        door.say(*talk(10))
        for number, (kind, place) in enumerate([*steps, ("say", 0)]):
            values = door.graph.get_state(thread()).values
            held = [m.id for m in values["messages"] if m.type == "human"]
            if kind == "say" or not held:
                first = 20 + 3 * number  # no message is said again after its removal
                request = door.say(*talk(first + 1 + place % 3, first))
                assert [one for one in gone if secret(one) in request + kept(door.state())] == []
                continue
            key = held[place % len(held)]
            gone.add(key)
            door.change(
                RemoveMessage(id=key) if kind == "remove" else HumanMessage(NOTHING, id=key)
            )


# Edits of messages that are summarized


def edited(messages, *keys):
    return [m.model_copy(update={"content": NOTHING}) if m.id in keys else m for m in messages]


@pytest.mark.slow
@pytest.mark.parametrize("summarizer", [None, ListSummarizer()])
def test_an_edit_of_a_covered_message_changes_its_entry_and_no_other(summarizer):
    memory, messages, state = memory_of(summarizer=summarizer), talk(22), None
    for end in (24, 30, 36, 44):
        state = memory.compact(messages[:end], state)
    assert len(entries_of(state)) > 1
    key = re.findall(r"/(h\d+)\.pem", entries_of(state)[0]["text"])[0]
    asked = len(summarizer.requests) if summarizer else 0
    now = edited(messages, key)
    view = memory.view(now, state)
    assert secret(key) not in contents(view.messages)
    assert view.usage.input_tokens <= BUDGET.limit
    after = memory.compact(now, state)
    pairs = zip(entries_of(state), entries_of(after), strict=True)
    changed = [(old, new) for old, new in pairs if new != old]
    assert [new["reason"] for _, new in changed] == ["edited"]
    assert changed[0][1]["tokens"] <= changed[0][0]["tokens"]
    assert secret(key) not in log_text(after)
    copied = messages_from_dict(messages_to_dict(now))
    assert memory.compact(copied, after) is after, "the same words in other objects are no edit"
    assert not summarizer or len(summarizer.requests) == asked, "no model is called for an edit"


def test_what_a_later_entry_repeats_of_an_edited_one_goes_with_it():
    """A model may repeat what the earlier entries say, though it should not."""

    def repeating(messages, prior, instruction, max_tokens):
        is_known = secret("h1") in f"{prior} {messages}"
        return f"- They named {secret('h1')}." if is_known else "- They talked about the sea."

    memory, messages, state = memory_of(summarizer=repeating, background=False), talk(24), None
    for end in range(4, 49, 2):
        state = memory.compact(messages[:end], state)
    said = [secret("h1") in entry["text"] for entry in entries_of(state)]
    assert said == [True] * len(said)
    assert len(said) > 1
    now = edited(messages, "h1")
    assert secret("h1") not in contents(memory.view(now, state).messages)
    assert secret("h1") not in log_text(memory.compact(now, state))


def test_an_edit_inside_of_a_message_is_seen_by_the_memory_that_knows_it():
    call = {"name": "read", "args": {"paths": ["secret.py"]}, "id": "c", "type": "tool_call"}
    block = {"type": "text", "text": "My secret word is two."}
    tell, called = HumanMessage([block], id="b"), AIMessage("", tool_calls=[call], id="c")
    result = ToolMessage("def three(): ...", tool_call_id="c", id="d")
    memory, messages = memory_of(), [tell, called, result, *talk(12)]
    state = memory.compact(messages)
    assert memory.compact(messages, state) == state
    for change in (
        lambda: tell.content[0].update(text=NOTHING),
        called.tool_calls[0]["args"]["paths"].clear,
    ):
        change()
        corrected = memory.compact(messages, state)
        assert entries_of(corrected)[0]["reason"] == "edited"
        assert corrected == memory_of().compact(messages, state)
        state = corrected
    assert "secret" not in log_text(state)


# What is not summarized

OLD = "quokka"
MODES = pytest.mark.parametrize("mode", ["code", "conversation", "reasoning"])
LARGE = TokenBudget(context_window=20_000)


def said(word=OLD):
    """Return a conversation whose messages say a word where notes are read from."""
    call, name = (
        {"name": "run", "args": {"command": f"cat /srv/{word}.py"}, "id": "c"},
        word.title(),
    )
    told = (
        f"You must never write to /srv/{word}.py. My name is {name} Smith. "
        f"Please migrate the {word} database. We decided to use {word} instead of Redis "
        f"because {word} is faster. {name} Smith lives in {name}."
    )
    return [
        HumanMessage("Please fix the parser of the invoices.", id="h0"),
        AIMessage("I look at the parser of the invoices.", id="a0"),
        HumanMessage(told, id="h1"),
        AIMessage("", tool_calls=[call], id="a1"),
        ToolMessage(f"FileNotFoundError: {word}", tool_call_id="c", id="t1", status="error"),
        AIMessage(f"We decided to use {word} for {name} Smith.", id="a2"),
        HumanMessage("We must always test the parser. Please go on.", id="h2"),
    ]


def is_old(*shown):
    """Return whether messages or a state have the old word."""
    texts = (kept(one) if isinstance(one, dict) else contents(one) for one in shown)
    return any(OLD in text.casefold() for text in texts)


@MODES
def test_notes_of_a_stored_session_follow_an_edit_of_what_is_not_summarized(mode, store):
    history = TokenMemoryChatHistory("s", memory=memory_of(LARGE, mode=mode), store=store)
    history.add_messages(said())
    assert is_old(history.messages)
    assert is_old(store.state("s").state)
    history.add_messages([m for m in said("harbour") if m.id in {"h1", "a1", "t1", "a2"}])
    shown, state = history.messages, store.state("s").state
    assert not is_old(shown, state)
    assert "harbour" in kept(state)
    assert history.messages == shown
    assert store.state("s").state == state


@MODES
def test_an_edit_by_hand_is_seen_by_a_view_and_keeps_the_numbers_of_decisions(mode):
    memory, now = memory_of(LARGE, mode=mode), said("harbour")
    state = memory.compact(said())
    assert is_old(state)
    assert not is_old(memory.view(now, state).messages)
    after = memory.compact(now, state)
    assert not is_old(after)
    assert after["modes"]["turn"] == state["modes"]["turn"]
    decisions = (one["modes"]["sections"].get("decisions", ()) for one in (state, after))
    before, numbers = ([item.get("number") for item in items] for items in decisions)
    assert numbers == before
    assert memory.compact(now, after) is after


@pytest.mark.slow
def test_a_recalled_block_goes_with_the_words_that_it_shows_before_any_summary(store):
    budget = TokenBudget(context_window=1_600, shares=Shares(recall=0.4))
    with Recall(store, k=1) as recall:
        door = Door("node", store, memory_of(budget, recall=recall, trigger=None))
        door.say(HumanMessage("Good morning to you.", id="first"))
        door.say(HumanMessage(f"The colour of the gate is {OLD}.", id="fact"))
        for turn in range(12):
            door.say(HumanMessage("Waves, wind and sand. " * 30, id=f"h{turn}"))
        assert OLD in door.say(HumanMessage("Which colour has the gate?", id="ask"))
        assert "fact" in door.state()["blocks"]["ask"]["ids"]
        door.change(HumanMessage("The colour of the gate is harbour.", id="fact"))
        request = door.say(HumanMessage("Go on.", id="next"))
        assert OLD not in request + kept(door.state())


@pytest.mark.slow
@pytest.mark.parametrize("key", ["h1", "h11"])
def test_a_summary_that_was_begun_before_an_edit_brings_no_words_back(key, store):
    begun, may_end = threading.Event(), threading.Event()

    def slow(messages, prior=None):
        begun.set()
        may_end.wait(20)
        return "\n".join(f"- {str(m.content)[:30]}" for m in messages)[:400]

    memory = memory_of(summarizer=slow, mode="reasoning", max_wait_s=0.1)
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    history.add_messages(talk(12))
    assert history.messages
    assert begun.wait(10)
    assert secret(key) in kept(store.state("s").state)
    history.add_messages([HumanMessage(NOTHING, id=key)])
    may_end.set()
    assert memory.background_summaries.wait(10)
    for _ in range(2):
        again = TokenMemoryChatHistory("s", memory=memory, store=store)
        assert secret(key) not in contents(again.messages)
        assert memory.background_summaries.wait(10)
    assert secret(key) not in kept(store.state("s").state)


@MODES
def test_notes_of_words_that_before_store_takes_out_are_not_stored(mode, store):
    memory = memory_of(LARGE, mode=mode, before_store=replacing("[R]", OLD, OLD.title()))
    chain = with_token_memory(Scripted(answer="Noted."), memory, store)
    for message in (said()[2], HumanMessage("Please go on.", id="next")):
        chain.invoke([message], session())
        assert not is_old(store.state("s").state or {})
    assert "[R]" in str(store.state("s").state)
