"""Record a real agent at work on this repository: `python examples/record_agent.py`.

The model is scripted, so that no key and no network is needed; everything else is real: LangChain's
`create_agent` runs the loop, the tools read these files, search them, run these tests and this
code, and what they answer (errors, too) is recorded as it came.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_script import SYSTEM, TURNS, Turn
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

ROOT = Path(__file__).resolve().parent.parent
RECORDING = ROOT / "examples" / "recorded_agent.jsonl"

_SECONDS = 120
"""Longest that a command of the agent may run."""
_MATCHES = 60
"""Most matches that one search returns."""


class ScriptedModel(BaseChatModel):
    """A chat model that follows a script: which turn and step it is, the messages tell."""

    turns: Sequence[Turn]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> ScriptedModel:
        """Return the same model: the script knows the tools already."""
        del tools
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        newest = max(i for i, message in enumerate(messages) if isinstance(message, HumanMessage))
        number = sum(isinstance(message, HumanMessage) for message in messages) - 1
        recent = messages[newest + 1 :]
        step = sum(isinstance(message, AIMessage) for message in recent)
        turn = self.turns[number]
        if step < len(turn.steps):
            answer = AIMessage(
                turn.steps[step].thought,
                tool_calls=[
                    {"name": name, "args": args, "id": f"call_{number + 1}_{step + 1}_{place}"}
                    for place, (name, args) in enumerate(turn.steps[step].calls, 1)
                ],
            )
        else:
            results: list[str] = [
                message.text for message in recent if isinstance(message, ToolMessage)
            ]
            answer = AIMessage(turn.answer(results))
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _inside(path: str) -> Path:
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT) or not found.exists():
        raise ToolException(f"Error: no such file or folder: {path}")
    return found


def _run(*command: str) -> str:
    """Run a command at the root of the repository; paths in its output are relative to it."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    output = f"{done.stdout}{done.stderr}".replace(f"{ROOT}/", "").replace(str(ROOT), ".")
    for folder, name in ((sys.prefix, "venv"), (sys.base_prefix, "python")):
        output = output.replace(folder, name)
    return f"exit code {done.returncode}\n{output.strip()}"


@tool
def list_files(folder: str) -> str:
    """List the files under a folder of the repository with their sizes in bytes."""
    found = (path for path in sorted(_inside(folder).rglob("*")) if path.is_file())
    return "\n".join(
        f"{path.stat().st_size:>7}  {path.relative_to(ROOT)}"
        for path in found
        if "__pycache__" not in path.parts
    )


@tool
def read_file(path: str, start: int = 1, lines: int = 100) -> str:
    """Read lines of a file, numbered, from the line `start` on."""
    text = _inside(path).read_text(encoding="utf-8").splitlines()
    return "\n".join(
        f"{number:>4}  {line}"
        for number, line in enumerate(text[start - 1 : start - 1 + lines], start)
    )


@tool
def grep(pattern: str, folder: str) -> str:
    """Search the Python files under a folder for a regular expression."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise ToolException(f"Error: not a regular expression: {error}") from None
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(_inside(folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if wanted.search(line)
    ]
    more = f"\n... and {len(found) - _MATCHES} more" if len(found) > _MATCHES else ""
    return f"{len(found)} matches\n" + "\n".join(found[:_MATCHES]) + more


@tool
def run_tests(path: str) -> str:
    """Run the tests of one file with pytest."""
    return _run(sys.executable, "-m", "pytest", "-v", "--no-header", "-p", "no:cacheprovider", path)


@tool
def run_python(code: str) -> str:
    """Run a few lines of Python at the root of the repository."""
    return _run(sys.executable, "-c", code)


TOOLS: list[BaseTool] = [list_files, read_file, grep, run_tests, run_python]


def record() -> list[BaseMessage]:
    """Let the agent work through every turn and return every message."""
    for one in TOOLS:
        one.handle_tool_error = True
    agent = create_agent(ScriptedModel(turns=TURNS), TOOLS, system_prompt=SYSTEM)
    messages: list[AnyMessage] = []
    for turn in TURNS:
        messages = agent.invoke({"messages": [*messages, HumanMessage(turn.ask)]})["messages"]
    return list[BaseMessage](messages)


def main() -> None:
    """Record, and write the recording beside this script."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    messages = record()
    row = {
        "id": "recorded-agent",
        "source": "examples/record_agent.py",
        "license": "MIT",
        "tools": [convert_to_openai_tool(one) for one in TOOLS],
        "messages": [
            {"role": "system", "content": SYSTEM},
            *convert_to_openai_messages(messages),
        ],
    }
    RECORDING.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(row['messages'])} messages -> {RECORDING.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
