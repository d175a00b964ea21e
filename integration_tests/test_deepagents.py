"""The memory in an agent of `deepagents`, which brings a summarizer of its own."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import TokenMemory, TokenMemoryMiddleware
from tests.contract.chats import Talker, calling, in_thread, long_turns, texts

deepagents = pytest.importorskip("deepagents")

WINDOW = 24_000

PROFILE = {"max_input_tokens": WINDOW, "max_output_tokens": 2_000}
"""Of a model with a small window, which deepagents' summarizer goes by, too."""


def ours(memory: TokenMemory, name: str = "SummarizationMiddleware") -> list[Any]:
    """Return the middleware, by default under the name of deepagents' own summarizer."""
    return [TokenMemoryMiddleware(memory, name=name)]


def deep_agent(model: Talker, *given: Any, **options: Any) -> Any:
    options.setdefault("checkpointer", InMemorySaver())
    return deepagents.create_deep_agent(model, *given, **options)


def talk(
    *name: str, turns: int = 40, files: Any = None, **more: Any
) -> tuple[TokenMemory, Talker, list[BaseMessage]]:
    """Return the memory of a deep agent, its model and its messages after some turns."""
    memory, model = TokenMemory(WINDOW, background=False), Talker(profile=PROFILE)
    agent = deep_agent(model, middleware=ours(memory, *name), **more)
    for question in long_turns(turns, words=600):
        result = agent.invoke({"messages": question, "files": files or {}}, in_thread())
    return memory, model, result["messages"]


def is_summarized_by_theirs(messages: list[BaseMessage]) -> bool:
    return any(m.additional_kwargs.get("lc_source") == "summarization" for m in messages)


def check_limit(memory: TokenMemory, model: Talker) -> None:
    """Check that each request fits, with the tools that it was sent with."""
    for request, keywords in zip(model.requests, model.keywords, strict=True):
        assert memory.count(request, tools=keywords["tools"]).tokens <= memory.budget.limit


def test_by_its_name_the_memory_takes_the_place_of_the_summarizer(caplog):
    memory, model, said = talk()
    assert "Another summarizer" not in caplog.text
    assert "<conversation_summary" in texts(model.requests[-1])
    assert not is_summarized_by_theirs(said)
    assert len(said) == 80
    check_limit(memory, model)


def test_a_second_summarizer_is_reported_before_it_has_done_anything(caplog):
    talk("TokenMemoryMiddleware", turns=1)
    assert caplog.text.count("Another summarizer in the agent's middleware") == 1


def test_a_thread_changes_from_the_summarizer_to_the_memory_and_back():
    saver, replacing = InMemorySaver(), ours(TokenMemory(WINDOW, background=False))
    said = long_turns(42, words=600)
    for middleware, questions in (((), said[:40]), (replacing, said[40:41]), ((), said[41:])):
        model = Talker(profile=PROFILE)
        agent = deep_agent(model, middleware=middleware, checkpointer=saver)
        for question in questions:
            agent.invoke({"messages": question}, in_thread())
        newest = model.requests[-1]
        assert ("<conversation_summary" in texts(newest)) == bool(middleware)
        assert is_summarized_by_theirs(newest) == (not middleware)
    assert [m.text for m in agent.get_state(in_thread()).values["messages"]][::2] == said


def test_what_the_skills_add_behind_is_counted():
    about = "Closes the shipyard at five, and says so at the gate. " * 15
    skill = "---\nname: close-{}\ndescription: {}\n---\n# Closing\n"
    files = {
        f"/skills/close-{n}/SKILL.md": {"content": skill.format(n, about), "encoding": "utf-8"}
        for n in range(20)
    }
    memory, model, _ = talk(turns=30, files=files, skills=["/skills/"])
    assert model.requests[-1][0].text.count(about.strip()) == 20
    check_limit(memory, model)


@tool
def look(number: int) -> str:
    """Look a parcel up."""
    return f"Parcel P-{number} " + "is on its way to the shipyard. " * 80


LOOKS = 45


def delegating(who: str) -> Callable[[list[BaseMessage]], AIMessage]:
    """Return the answers of an agent that delegates, and of its sub-agent."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        results = [m for m in messages if isinstance(m, ToolMessage)]
        if "Check the parcels" in next(m for m in messages if m.type == "human").text:
            number = int(results[-1].tool_call_id) + 1 if results else 1
            done = AIMessage("All are checked.")
            return done if number > LOOKS else calling("look", str(number), number=number)
        task = {"description": "Check the parcels.", "subagent_type": who}
        return AIMessage("Done.") if results else calling("task", "task", **task)

    return answer


@pytest.mark.parametrize("who", ["general-purpose", "checker"])
def test_a_sub_agent_has_the_memory_in_the_place_of_the_summarizer(who, caplog):
    memory = TokenMemory(WINDOW, background=False)
    model = Talker(answer=delegating(who), profile=PROFILE)
    replacing = ours(memory)
    checker = {
        "name": "checker",
        "description": "Checks parcels.",
        "system_prompt": "Check parcels.",
        "middleware": replacing,
    }
    agent = deep_agent(model, [look], middleware=replacing, subagents=[checker])
    config = {**in_thread(), "recursion_limit": 500}
    said = agent.invoke({"messages": "Are all parcels well?"}, config)["messages"]
    assert [m.text for m in said[-2:]] == ["All are checked.", "Done."]
    assert len(model.requests) == LOOKS + 3
    assert "<conversation_summary" in texts(model.requests[LOOKS])
    assert "Another summarizer" not in caplog.text
    check_limit(memory, model)
