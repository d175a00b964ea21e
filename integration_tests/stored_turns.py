"""Turns with words that are derived from their writer and number."""

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage


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
