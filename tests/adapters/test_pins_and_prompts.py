"""Pins beside system texts that the memory sees, and beside those that it does not see."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import create_react_agent

from langchain_tokenmem import (
    MemoryMessagesState,
    MemoryNode,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.graphs import MemoryAgentState, pin_update
from langchain_tokenmem.state import new_state
from tests.providers import StrictModel

RULE = "Answer in French."
SYSTEM = SystemMessage("You sell tea.")
PROMPT = ChatPromptTemplate.from_messages(
    [SYSTEM, MessagesPlaceholder("history"), ("human", "{input}")]
)
QUESTIONS = ("tea?", "coffee?", "milk?")
FAMILIES = {"common": "openai", "strict": "mistral"}
SESSION = {"configurable": {"session_id": "s", "thread_id": "s"}}


def histories(memory, store):
    def history(session_id="s"):
        return TokenMemoryChatHistory(session_id, memory=memory, store=store)

    history().pin(RULE)
    return history


def runnable_with_message_history(memory, model, store):
    history = histories(memory, store)
    keys = {"input_messages_key": "input", "history_messages_key": "history"}
    chain = RunnableWithMessageHistory(PROMPT | model, history, **keys)
    for said in QUESTIONS:
        chain.invoke({"input": said}, SESSION)


def history_by_hand(memory, model, store):
    history = histories(memory, store)()
    for said in QUESTIONS:
        history.add_user_message(said)
        history.add_message(model.invoke([SYSTEM, *history.messages]))


def prompt_with_token_memory(memory, model, store):
    histories(memory, store)
    keys = {"input_messages_key": "input", "history_messages_key": "history"}
    chain = with_token_memory(PROMPT | model, memory, store, **keys)
    for said in QUESTIONS:
        chain.invoke({"input": said}, SESSION)


def function_with_token_memory(memory, model, store):
    histories(memory, store)
    function = RunnableLambda(lambda messages: model.invoke([SYSTEM, *messages]))
    chain = with_token_memory(function, memory, store)
    for said in QUESTIONS:
        chain.invoke(said, SESSION)


def prompt_of_react_agent(memory, model, store):
    agent = create_react_agent(
        model,
        [],
        prompt=SYSTEM,
        pre_model_hook=MemoryNode(memory),
        state_schema=MemoryAgentState,
        checkpointer=InMemorySaver(),
    )
    talk(agent)


def graph_of(memory, model, front, **given):
    builder = StateGraph(MemoryMessagesState)

    def call_model(state: MemoryMessagesState) -> dict:
        return {"messages": [model.invoke([*front, *memory_input(state, memory, **given)])]}

    builder.add_node("model", call_model)
    builder.add_edge(START, memory_nodes(builder, memory, before="model", **given))
    return builder.compile(checkpointer=InMemorySaver())


def node_with_a_prompt_of_its_own(memory, model, store):
    talk(graph_of(memory, model, [SYSTEM]))


def node_with_system(memory, model, store):
    talk(graph_of(memory, model, [], system=SYSTEM))


def middleware(memory, model, store):
    class Pins(AgentMiddleware):
        def before_agent(self, state, runtime):
            return pin_update(RULE)

    parts = [Pins(), TokenMemoryMiddleware(memory)]
    talk(create_agent(model, [], system_prompt=SYSTEM.text, middleware=parts), keeps=False)


def talk(graph, *, keeps=True):
    if keeps:
        graph.update_state(
            SESSION, pin_update(RULE), as_node="agent" if "agent" in graph.nodes else "model"
        )
    for said in QUESTIONS:
        graph.invoke({"messages": [HumanMessage(said)]}, SESSION)


SEEN = (prompt_with_token_memory, node_with_system, middleware)
NOT_SEEN = (
    runnable_with_message_history,
    history_by_hand,
    function_with_token_memory,
    prompt_of_react_agent,
    node_with_a_prompt_of_its_own,
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # create_react_agent's own
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("use", [*SEEN, *NOT_SEEN])
def test_beside_a_prompts_system_message_pins_are_no_second_one(use, profile):
    model = StrictModel(family=FAMILIES.get(profile, profile))
    memory = TokenMemory(TokenBudget(8_000), legality=profile)
    with TranscriptStore("sqlite://") as store:
        use(memory, model, store)
    assert len(model.seen) == len(QUESTIONS)
    for request in model.seen:
        assert [message.type for message in request].count("system") == 1
        place = next(n for n, message in enumerate(request) if RULE in message.text)
        assert place == (0 if use in SEEN else 1)
        assert (request[0].text == SYSTEM.text) is (use in NOT_SEEN)
        types = [message.type for message in request[1:]]
        assert types == ["human", "ai"] * (len(types) // 2) + ["human"]


def pinned_state():
    return {**new_state(), "pins": list(pin_update(RULE)["token_memory_pins"].values())}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("texts", [[], ["hi"], ["hi", "there"]])
def test_pins_in_a_human_message_are_counted_with_the_request(profile, texts):
    memory = TokenMemory(TokenBudget(8_000), legality=profile)
    messages = [HumanMessage(text, id=f"h{n}") for n, text in enumerate(texts)]
    view = memory.view(messages, pinned_state())
    bare = memory.view(messages)
    counted = memory.count(view.messages).tokens
    assert abs(view.usage.input_tokens - counted) <= 4  # where texts are joined
    assert view.usage.parts["pinned"] > bare.usage.parts["pinned"]


def test_pins_stand_behind_the_log_so_that_a_new_one_leaves_it_cached():
    memory = TokenMemory(TokenBudget(1_200))
    messages = [HumanMessage(f"question {n} " * 40, id=f"h{n}") for n in range(20)]
    state = memory.compact(messages, pinned_state(), force=True)
    first = memory.view(messages, state).messages[0]
    assert RULE in first.content[-1]["text"]
    assert "conversation_summary" in first.content[-2]["text"]
    more = {
        **state,
        "pins": [*state["pins"], *pin_update("Be brief.")["token_memory_pins"].values()],
    }
    again = memory.view(messages, more).messages[0]
    assert again.content[:-1] == first.content[:-1]
