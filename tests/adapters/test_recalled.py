"""The memory block: what recall finds rides in the newest question, in every integration alike."""

from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import (
    MemoryMessagesState,
    Recall,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.summarize.base import Summary, SummaryRequest
from tests.adapters.integrations import (
    DOORS,
    agent_of,
    call,
    contents,
    graph_with,
    session,
    split_graph_with,
    thread,
    turns,
)
from tests.fakes import ListSummarizer, called, memory_of
from tests.notes.conftest import notebook_on
from tests.summarize.models import Scripted, raising

FENCE = "<recalled_messages>"


@pytest.fixture
def recall(store):
    return Recall(store)


def fact(word: str, key: str = "fact") -> list[BaseMessage]:
    said = f"The code is {word} today. " + "x " * 40
    return [HumanMessage(said, id=key), AIMessage("y " * 50, id=f"{key}-reply")]


def talk(word: str) -> list[BaseMessage]:
    """Return a conversation that has room for its end only; early in it stands a fact."""
    return [*turns(1, 900), *fact(word), *turns(40)]


def history_on(recall, name="s", **keywords) -> TokenMemoryChatHistory:
    memory = memory_of(recall=recall, **keywords)
    return TokenMemoryChatHistory(name, memory=memory, store=recall.store)


def covered(recall) -> TokenMemoryChatHistory:
    """Return a session whose first turns are covered by its summary."""
    recall.store.add("s", talk("ZEBRA"))
    history = history_on(recall)
    history.compact()
    return history


QUESTION = "What was ZEBRA about?"


def test_the_question_of_a_prompt_is_looked_for_and_nothing_is_found_twice(recall, monkeypatch):
    history, queries, search = covered(recall), [], recall.search
    monkeypatch.setattr(recall, "search", lambda q, **how: queries.append(q) or search(q, **how))
    documents = "Parcels are weighed in Oslo. " * 60
    prompt = f"<context>{documents}</context>\n<question>{QUESTION}</question>"
    history.add_messages([HumanMessage(prompt, id="ask")])
    view = history.view()
    block = str(view.messages[-1].content).partition("</recalled_messages>")[0]
    assert "The code is ZEBRA today." in block
    assert view.usage.parts["memory_block"] == view.usage.parts["recalled"] > 0
    history.add_messages(called(1, "look", {}, "found"))
    history.view()  # of a loop of tools: the question has been looked for
    history.add_messages([AIMessage("A code."), HumanMessage(QUESTION)])
    assert "ZEBRA today" not in str(history.messages[-1].content), "the block before is still shown"
    assert queries == [QUESTION] * 2


FOUND = {"best": (1.0, 0.5), "some": (0.5, 0.1), "long": (0.1, 0.25), "weak": (0.29, 0.24)}
STATEMENT = "I think we should talk about the price again, and then about the rest of it."


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("What did we say about the price?", {"best", "some", "long"}),
        ("价格是多少？", {"best", "some", "long"}),  # noqa: RUF001  # a question mark of Chinese
        (STATEMENT, {"best", "long"}),
    ],
)
def test_weak_hits_are_left_out_and_a_statement_recalls_what_matches_a_fifth_of_it(
    recall, monkeypatch, said, shown
):
    recall.store.add("old", [HumanMessage("walrus " * 12)])
    (hit,) = recall.search("walrus", session_id="old")
    hits = [
        replace(hit, message_id=name, text=name, score=score, lexical=lexical)
        for name, (score, lexical) in FOUND.items()
    ]
    monkeypatch.setattr(recall, "search", lambda _query, **_scope: hits)
    history = history_on(recall)
    history.add_messages([HumanMessage(said)])
    block = str(history.messages[-1].content).partition("</recalled_messages>")[0]
    assert {name for name in FOUND if name in block} == shown


def test_a_turn_of_a_chain_that_failed_takes_nothing_from_its_retry(recall):
    covered(recall)
    memory = memory_of(recall=recall)
    broken = with_token_memory(Scripted(answer=raising), memory, recall.store)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            broken.invoke(QUESTION, session())
    model = Scripted(answer="A code.")
    with_token_memory(model, memory, recall.store).invoke(QUESTION, session())
    assert "The code is ZEBRA" in str(model.requests[-1][-1].content)
    assert recall.store.last("s", 2)[0].content == QUESTION


@pytest.mark.slow
@pytest.mark.parametrize(
    ("door", "pruned"), [*((door, False) for door in DOORS.values()), (split_graph_with, True)]
)
def test_graphs_recall_what_their_own_branch_has_said(door, recall, pruned):
    more = {"archive": recall.store, "prune": True} if pruned else {}
    model, graph = door(memory_of(recall=recall), **more)

    def say(said, config=None):
        graph.invoke({"messages": said}, config or thread())
        return str(model.requests[-1])

    say(turns(30))
    early = graph.get_state(thread()).config
    say([*fact("LATER"), *turns(30, 200)])
    say("And?")
    assert ("LATER" in str(graph.get_state(thread()).values["messages"])) is not pruned
    assert "The code is LATER today." in say("What was LATER about?")
    ids = [message.id for message in recall.store.messages("t")]
    assert len(ids) == len(set(ids))
    assert FENCE not in contents(recall.store.messages("t"))
    say(turns(30, 400), early)
    say("And?")
    assert "The code is LATER" not in say("What was LATER about?")


def test_a_sub_agents_messages_are_not_recalled_by_its_parent(recall):
    memory = memory_of(recall=recall)
    model, child = graph_with(memory)
    child = child.builder.compile()

    def ask_child(_state):
        return {"messages": child.invoke({"messages": fact("HIDDEN")})["messages"][-1:]}

    builder = StateGraph(MemoryMessagesState).add_node("child", ask_child)
    builder.add_node("model", lambda state: {"messages": model.invoke(memory_input(state, memory))})
    builder.add_edge(START, "child")
    builder.add_edge("child", memory_nodes(builder, memory))
    parent = builder.compile(checkpointer=InMemorySaver())
    for said in (turns(40), "What was HIDDEN about?"):
        parent.invoke({"messages": said}, thread())
    assert "The code is HIDDEN" not in str(model.requests[-1])
    kept = [contents(recall.store.messages(name)) for name in recall.store.sessions()]
    assert ["HIDDEN today" in said for said in kept] == [False, True]


def test_without_a_thread_nothing_is_recalled_and_it_is_logged_once(door, recall, caplog):
    model, graph = door(memory_of(recall=recall))
    graph.checkpointer = None
    for _ in range(2):
        graph.invoke({"messages": QUESTION})
    assert FENCE not in str(model.requests)
    assert caplog.text.count("Nothing is recalled") == 1


# --- a checkpointer on the store of the recall


@pytest.mark.slow
def test_what_a_checkpointer_keeps_in_the_same_store_is_written_once_it_is_hidden(store):
    """A run with `durability="exit"` has no checkpoint before its end; its past is found before."""
    hidden: list[int] = []

    @tool
    def look(q: str) -> str:
        """Look something up; note how much of the past is there to be found."""
        hidden.append(len(recall.search("the secret of q0", session_id="t", k=50)))
        return f"The secret of {q} is green. " * 20

    with Recall(store) as recall:
        script = [call(number) for number in range(12)] + [AIMessage("Done."), AIMessage("Yes.")]
        middleware = TokenMemoryMiddleware(memory_of(1_200, recall=recall))
        _, agent = agent_of(script, middleware, tools=(look,), checkpointer=TokenMemorySaver(store))
        said = {"messages": [HumanMessage("Go.", id="first")]}
        agent.invoke(said, thread(), durability="exit")
        assert max(hidden) > 0
        agent.invoke({"messages": [HumanMessage("Once more?", id="second")]}, thread())
    stored = [message.id for message in store.messages("t")]
    assert stored == [m.id for m in agent.get_state(thread()).values["messages"]]


class Terse(ListSummarizer):
    """Writes nothing about the messages that are folded."""

    def summarize(self, request: SummaryRequest) -> Summary:
        return Summary("Earlier messages.", "terse", "terse-1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_quick"), [("node", False), ("middleware", True), ("three nodes", True)]
)
def test_a_question_also_recalls_what_a_fold_before_its_request_hides(name, is_quick, recall):
    memory, folded = memory_of(recall=recall, summarizer=Terse()), 0
    memory.summarizer.is_quick = is_quick
    model, graph = DOORS[name](memory)
    for count in (16, 22, 28, 34):
        said = [*turns(1), *fact("ZEBRA"), *turns(count, 1), HumanMessage(QUESTION, id="ask")]
        graph.invoke({"messages": said}, thread(f"t{count}"))
        shown, block = contents(model.requests[-1]), str(model.requests[-1][-1].content)
        assert shown.count("The code is ZEBRA today.") == 1, count
        folded += "The code is ZEBRA today." in block
    assert folded > 1


# Kept notes


TABS = "- 2026-11-22 preference (global): Use tabs in code. [mem_"
ANN = thread("t1", user_id="ann")


@pytest.fixture
def notebook():
    notebook = notebook_on(InMemoryStore())
    notebook.add("Use tabs in code.", level="global", kind="preference", user_id="ann")
    return notebook


def with_notes(store, notebook, name="s1"):
    memory = memory_of(4_000, notes=notebook)
    return TokenMemoryChatHistory(name, memory=memory, store=store, user_id="ann")


@pytest.fixture
def noted(notebook, store):
    """A history with the notes."""
    return with_notes(store, notebook)


def asked(history, text):
    """Return the last message of the view for a question, which is answered then."""
    history.add_user_message(text)
    shown = history.messages[-1].text
    history.add_ai_message("ok")
    return shown


def test_notes_are_counted_in_parts_and_within_their_share(notebook, noted):
    for number in range(60):
        notebook.add(f"Use tabs in code of module number {number}.", user_id="ann")
    noted.add_user_message("Do I use tabs in code?")
    usage = noted.usage()
    assert 0 < usage.parts["notes"] <= noted.view().usage.max_tokens * 0.05 + 5
    assert usage.parts["memory_block"] >= usage.parts["notes"]
    assert usage.parts["recalled"] == usage.parts["memory_block"] - usage.parts["notes"]


def test_a_note_in_a_live_block_is_shown_again_once_it_has_changed_or_come_back(notebook, noted):
    assert TABS in asked(noted, "Do I use tabs in code?")
    assert "kept_notes" not in asked(noted, "Tabs in code, really?")
    note = notebook.list(level="global", user_id="ann")[0]
    for _ in range(2):
        notebook.remove(note.id, user_id="ann")
        assert f"longer valid: [{note.id}]" in asked(noted, "What else is there to say?")
        notebook.add(note.content, level="global", kind="preference", user_id="ann")
        assert TABS in asked(noted, "Say again: do I use tabs in code?")
        assert "kept_notes" not in asked(noted, "Tabs in code, really?")
    notebook.add("Deploy on Fridays.", key="deploy", user_id="ann")
    assert "Fridays" in asked(noted, "When do we deploy?")
    notebook.add("Deploy on Mondays.", key="deploy", user_id="ann")
    assert "Mondays" in asked(noted, "Say again when we deploy?")


def test_the_last_two_turns_bring_notes_as_well(store, notebook, noted):
    asked(noted, "Which cluster is for staging?")
    notebook.add("The staging cluster is called Berta.", user_id="ann")
    assert "Berta" in asked(noted, "Please tell me.")
    assert "Berta" not in asked(with_notes(store, notebook, "s2"), "Please tell me.")


def test_nothing_is_shown_where_it_is_switched_off_or_the_store_fails(store, notebook, caplog):
    class Broken(InMemoryStore):
        def batch(self, ops):
            raise OSError("disk full")

    for notes in (notebook_on(notebook.store, in_requests=False), notebook_on(Broken())):
        assert asked(with_notes(store, notes), "Do I use tabs?") == "Do I use tabs?"
    assert "no notes are shown, disk full" in caplog.text


def test_an_agent_shows_notes_of_the_graphs_own_store(notebook):
    middleware = TokenMemoryMiddleware(memory_of(8_000, notes=notebook_on(None)))
    model, agent = agent_of([call(0), AIMessage("Done.")], middleware, store=notebook.store)
    agent.invoke({"messages": "Do I use tabs in code?"}, ANN)
    assert TABS in model.seen[0][-1].text
    assert model.seen[1][0] == model.seen[0][0]
