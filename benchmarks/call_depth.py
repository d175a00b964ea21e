"""How many of our functions, in how many files, one call runs through.

Counted are functions and methods of langchain_tokenmem, each once; no comprehension is one.

Run: python benchmarks/call_depth.py [--names]
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

import langchain_tokenmem
from langchain_tokenmem import TokenMemory, TokenMemoryMiddleware, TokenMemorySaver, TranscriptStore

OURS = str(Path(langchain_tokenmem.__file__).parent)
LONG = "The harbour of the town has nine piers and a light that is red at night. " * 40


def called(call: Callable[[], object]) -> set[tuple[str, str]]:
    """Return file and name of our functions that a call runs through, in any thread."""
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and code.co_name[0] != "<":
            found.add((code.co_filename.removeprefix(OURS), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # that is how it ends
    return found


def last_put(saver: TokenMemorySaver) -> set[tuple[str, str]]:
    """Put three checkpoints of a growing list; return what the last one runs through."""
    parent: Any = {"configurable": {"thread_id": "put", "checkpoint_ns": ""}}
    for turn in range(3):
        messages = [
            one(f"{n}", id=f"{n}{one}") for n in range(turn) for one in (HumanMessage, AIMessage)
        ]
        values = {
            "channel_values": {"messages": messages},
            "channel_versions": {"messages": turn + 1},
        }
        new: Any = {**empty_checkpoint(), "id": f"{turn}", **values}
        found = called(lambda: saver.put(parent, new, {"step": turn}, {"messages": turn + 1}))  # noqa: B023
        parent["configurable"]["checkpoint_id"] = new["id"]
    return found


def main() -> None:
    """Print the counts, and with `--names` the functions."""
    with TranscriptStore("sqlite://") as store:
        memory = TokenMemory(4_000, background=False)
        model, middleware = FakeListChatModel(responses=["Yes."]), [TokenMemoryMiddleware(memory)]
        agent = create_agent(model, middleware=middleware)
        short: Any = {"messages": [HumanMessage("Hello")]}
        long: Any = {"messages": [one(LONG) for _ in range(6) for one in (HumanMessage, AIMessage)]}
        long["messages"].append(HumanMessage("And now?"))
        agent.invoke(short)  # what happens once in a process is no part of a call
        counts = {
            "agent call, short message": called(lambda: agent.invoke(short)),
            "agent call with a fold": called(lambda: agent.invoke(long)),
            "put of two new messages": last_put(TokenMemorySaver(store)),
        }
    for name, found in counts.items():
        print(f"{name}: {len(found)} functions in {len({file for file, _ in found})} files")
        for file, function in sorted(found) if "--names" in sys.argv else ():
            print(f"  {file} {function}")


if __name__ == "__main__":
    main()
