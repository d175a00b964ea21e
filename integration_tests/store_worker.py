"""A process that writes to a store; tests start many of them, and kill some.

Run: python store_worker.py singles|turns URL SESSION WRITER COUNT
"""

from __future__ import annotations

import sys

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from processes import Fork

from langchain_tokenmem import TranscriptStore


def turn(writer: str, number: int) -> list[BaseMessage]:
    """A question, a call with two results, and an answer."""
    name = f"{writer}-{number}"
    calls = [
        {"name": "look", "args": {"n": i}, "id": f"{name}-c{i}", "type": "tool_call"}
        for i in range(2)
    ]
    return [
        HumanMessage(f"question {name} " + "x" * (number * 37 % 3_000), id=f"{name}-0"),
        AIMessage("", tool_calls=calls, id=f"{name}-1"),
        ToolMessage("y" * (number * 91 % 9_000), tool_call_id=f"{name}-c0", id=f"{name}-2"),
        ToolMessage("z", tool_call_id=f"{name}-c1", id=f"{name}-3"),
        AIMessage(f"answer {name}", id=f"{name}-4"),
    ]


def finish(workers: list[Fork], each: int) -> None:
    """Wait for writers; every one must have written everything."""
    ended = [(worker.communicate(timeout=200), worker.returncode) for worker in workers]
    for (out, err), code in ended:
        assert code == 0, err
        assert len(out.split()) == each


def main() -> None:
    kind, url, session, writer, count = sys.argv[1:]
    with TranscriptStore(url, shared=True) as store:
        for number in range(int(count)):
            if kind == "turns":
                store.add(session, turn(writer, number))
            else:
                store.add(session, [HumanMessage(f"{writer} {number}", id=f"{writer}-{number}")])
            # Printed only after `add` returned: this is what "acknowledged" means.
            print(f"{writer}-{number}", flush=True)


if __name__ == "__main__":
    main()
