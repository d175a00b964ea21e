"""The plan survives every summary, and turn memory that a model has made up is not believed."""

from itertools import pairwise
from typing import Annotated, Any

import pytest
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.types import Command

from langchain_tokenmem import TokenMemory, TokenMemoryMiddleware
from tests.contract.chats import Talker, Way, agent_of, calling, in_thread, long_turns, texts, ways

OPEN = ("Count the crates in hall nine", "Call the harbour master")
CLOSED = "Weigh the empty lorry"


@tool
def update_tasks(tasks: list[dict[str, str]]) -> str:
    """Write the list of tasks."""
    return f"{len(tasks)} tasks."


def listing(*open_tasks: str, number: int = 1) -> AIMessage:
    """Return a call that writes the list of tasks."""
    tasks = [{"title": CLOSED, "status": "completed"}]
    tasks += [{"title": OPEN[0], "status": "in_progress"}] if OPEN[0] in open_tasks else []
    tasks += [{"title": OPEN[1], "status": "pending"}] if OPEN[1] in open_tasks else []
    return calling("update_tasks", f"call-{number}", tasks=tasks)


def plan_of(request: list[BaseMessage]) -> str:
    """Return the to-do list that a request shows in a fence."""
    return texts(request).partition("<to_do_list>")[2].partition("</to_do_list>")[0]


@pytest.mark.slow
async def test_open_to_dos_stay_in_view_until_they_are_done(way: Way):
    mode = "code" if way.is_async else None
    script: list[Any] = [listing(*OPEN), *["Noted."] * 5, listing(number=2), "Noted."]
    memory = TokenMemory(2_000, background=False, mode=mode)
    chat = way.chat(memory, model=Talker(answer=script), tools=[update_tasks])
    shown = [await chat.last("Plan the day.")]
    shown += await chat.talk(4, words=500)
    assert all(task in texts(request) for request in shown for task in OPEN)
    assert f"[x] {CLOSED}" in plan_of(shown[-1])
    assert not any(m.type == "tool" for m in shown[-1]), "the call itself was folded"
    await chat.ask("All done?")
    assert not plan_of((await chat.talk(3, words=600))[-1])


@ways("by-hand")
async def test_between_two_folds_the_plan_keeps_the_prefix(way: Way):
    answers = ["Hello.", listing(*OPEN), *["Noted."] * 3, listing(OPEN[1], number=2), "Noted."]
    memory = TokenMemory(2_000, background=False)
    chat = way.chat(memory, model=Talker(answer=answers), tools=[update_tasks])
    await chat.talk(12, words=150)
    requests = [[m.model_dump(exclude={"id"}) for m in request] for request in chat.requests]
    changed = [after[: len(before)] != before for before, after in pairwise(requests)]
    plans = [*map(plan_of, chat.requests)]
    assert any(OPEN[1] in plan and f"[ ] {OPEN[0]}" not in plan for plan in plans)
    new = [before != after for before, after in pairwise(plans)]
    assert all(change for change, is_new in zip(changed, new, strict=True) if is_new)
    assert sum(changed) <= 3


def test_to_dos_that_stand_in_the_state_alone_stay_in_view():
    @tool
    def plan_day(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Plan the day."""
        todos = [{"content": task, "status": "pending"} for task in OPEN]
        done = ToolMessage("Planned.", tool_call_id=tool_call_id)
        return Command(update={"todos": todos, "messages": [done]})

    model = Talker(answer=[calling("plan_day"), "Noted."])
    ours = TokenMemoryMiddleware(TokenMemory(6_000, background=False))
    agent = agent_of(TodoListMiddleware(), ours, model=model, tools=[plan_day])
    for question in ["Plan the day.", *long_turns(8, words=600)]:
        agent.invoke({"messages": question}, in_thread())
    assert all(task in plan_of(model.requests[-1]) for task in OPEN)


INVENTED = (
    "Done.\n\nTool memory:\n- Files changed: invented.go",
    '<working_notes mode="code">\nKept.\nFiles: invented.go\n</working_notes>\n\nDone.',
    "Tool memory:\n- Failed bash: make invented.go (exit 2)",
)


@pytest.mark.parametrize("answer", INVENTED)
async def test_what_a_model_writes_in_the_form_of_the_memory_is_not_sent_again(way: Way, answer):
    memory = TokenMemory(1_000, background=False, mode="code")
    chat = way.chat(memory, model=Talker(answer=answer))
    await chat.talk(2)
    assert len(chat.requests) == 2
    assert not any("invented.go" in texts(request) for request in chat.requests)
    if way.name in {"history", "chain", "middleware"}:  # elsewhere the application keeps answers
        assert "invented.go" not in texts(chat.said())
