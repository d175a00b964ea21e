"""Features of a memory by chance, and the conversations that give them something to show.

Modes of working notes, turn memory, shown times, notes, pins, recalled messages, bounds on messages
and on results. They have dice of their own: the conversation of a seed is the same without them.
"""

import random
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem.core.messages import READ_MESSAGE, marked, role_of, with_ids
from langchain_tokenmem.core.pins import new_pin
from langchain_tokenmem.memory.recalled_blocks import add_memory_block
from langchain_tokenmem.modes import TurnMemorySettings
from langchain_tokenmem.notes.kept_notes import KeptNotes, with_notes_in_front
from langchain_tokenmem.state import MemoryState, new_state
from langchain_tokenmem.types import Shares

TIME = "2026-02-14T15:23:05+00:00"
FENCES = ("", "", "</working_notes>", "</conversation_summary>", "</recalled_messages>", "\0\x1f")
MODES = ("conversation", "code", "reasoning")
READ = {
    "type": "function",
    "function": {
        "name": READ_MESSAGE,
        "description": "Read a message.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
    },
}

Dice = random.Random


def memory_options(dice: Dice) -> dict[str, Any]:
    """Return keywords of a `TokenMemory`."""
    return {
        "mode": dice.choice([None, *MODES]),
        "turn_memory": TurnMemorySettings(
            shown=dice.choice(["when_hidden", "always", "always", "never"]),
            include_partial=dice.random() < 0.5,
            project_root=dice.choice([None, "/app"]),
        ),
    }


def rules(dice: Dice) -> dict[str, Any]:
    """Return keywords of `RequestRules`."""
    return {
        "show_times": dice.choice([None, "human", "all"]),
        "max_messages": dice.choice([None, None, 2, 3, 5, 9, 40]),
        "max_tail_messages": dice.choice([None, None, None, 12]),
    }


def budget_options(dice: Dice) -> dict[str, Any]:
    """Return keywords of a `TokenBudget`."""
    return {"shares": Shares(result_chars=dice.choice([None, None, 40, 300, 3_000]))}


def request_options(dice: Dice) -> dict[str, Any]:
    """Return keywords of one call."""
    system = dice.choice([None, None, "", "Rules. " * 8, SystemMessage("Rules.")])
    return {
        **({"system": system} if system is not None else {}),
        **({"mode": dice.choice([*MODES, ""])} if dice.random() < 0.2 else {}),
        **({"tools": [READ]} if dice.random() < 0.3 else {}),
    }


def turn_of_work(dice: Dice, key: str) -> list[BaseMessage]:
    """Return a question, calls that change files and fail, and what was decided."""
    said = dice.choice(FENCES)
    calls: list[Any] = [
        {"name": "bash", "args": {"command": f"make test {said}"}, "id": f"{key}b"},
        {"name": "write_file", "args": {"path": f"/app/{key}{said}.py"}, "id": f"{key}f"},
    ]
    failed = dice.choice(["Error: no target 'test'\nbash-$", "x" * 4_000 + "\npanic: 7", ""])
    return [
        HumanMessage(f"Fix src/{key}.py. We must never use telnet. {said}", id=f"{key}h"),
        AIMessage(dice.choice(["", "I look."]), tool_calls=calls, id=f"{key}a"),
        ToolMessage(failed, tool_call_id=f"{key}b", artifact={"exit_code": dice.choice([0, 1])}),
        ToolMessage("ok", tool_call_id=f"{key}f"),
        AIMessage(f"We decided to use SQLite because it is simple. {said}", id=f"{key}d"),
    ]


def with_work(dice: Dice, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a conversation with turns of work and times in it, mostly in front of a question."""
    found = list(messages)
    for number in range(dice.choice([0, 1, 2, 5])):
        before = [at for at, one in enumerate(found) if one.type == "human"]
        anywhere = dice.randint(0, len(found))
        at = dice.choice(before) if before and dice.random() < 0.8 else anywhere
        found[at:at] = turn_of_work(dice, f"w{number}")
    timed = dice.choice([0.0, 0.5, 1.0])
    return [marked(one, created_at=TIME) if dice.random() < timed else one for one in found]


def with_features(dice: Dice, state: MemoryState | None, shown: Sequence[BaseMessage]) -> Any:
    """Return a state with pins, and with a memory block in front of the newest question."""
    if dice.random() < 0.4:
        held = state or new_state()
        pins = [new_pin("Answer in French."), new_pin("Port 8443 </pins>", by="tool")]
        pins = [one for one in pins if dice.random() < 0.8]
        state = {**held, "pins": dice.choice([pins, pins[:1], []])}
    if dice.random() < 0.5:
        named = with_ids(shown)
        if named and role_of(named[-1]) == "human":
            state = add_memory_block(state or new_state(), named, named[-1], _block(dice))
    return state


def _block(dice: Dice) -> Any:
    said = f"The parcel is blue. {dice.choice(FENCES[:2])}" * dice.choice([1, 1, 40])
    recalled: Any = {"text": f"<recalled_messages>\nUser: {said}\n</recalled_messages>", "ids": []}
    kept = KeptNotes(f"<kept_notes>\n{said}\n</kept_notes>", {"n1": "user"})
    return dice.choice([recalled, with_notes_in_front(recalled, kept)])
