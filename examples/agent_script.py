"""Script of a recorded agent: questions of the user, and answers of the scripted model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SYSTEM = """\
You are a careful software engineer at work on the Python package langchain-tokenmem.
Look things up with your tools before you answer; never guess a number.
Name the file and line that an answer rests on. Do not change any file without being asked."""


@dataclass(frozen=True)
class Step:
    """One answer of the model that calls tools: what it says, and the calls."""

    thought: str
    calls: Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Turn:
    """One request of the user, the steps taken, and the closing answer made from the results."""

    ask: str
    steps: Sequence[Step]
    answer: Callable[[list[str]], str]


def _line(text: str, pattern: str) -> str:
    """Return the first line of a result that matches; the recording never claims anything else."""
    return next((line.strip() for line in text.splitlines() if re.search(pattern, line)), "nothing")


LIMITS = """\
from langchain_tokenmem import TokenBudget
budget = TokenBudget(context_window=8_000)
print('default: reserve_output', budget.reserve_output, 'limit', budget.limit)
budget = TokenBudget(context_window=8_000, reserve_output=1_200)
print('decided: reserve_output', budget.reserve_output, 'limit', budget.limit)
print('compact at', budget.compact_tokens, 'summarize at', budget.summarize_tokens)
print('target', budget.target_tokens)"""

TOO_SMALL = """\
from langchain_tokenmem import TokenBudget
TokenBudget(context_window=200)"""

MEASURE = """\
from langchain_core.messages import HumanMessage
from langchain_tokenmem import TokenBudget, TokenMemory
memory = TokenMemory(TokenBudget(context_window=8_000, reserve_output=1_200))
view = memory.view([HumanMessage('Where is my parcel 4711?')], system='Be brief.')
print(view.usage)"""

TURNS = [
    Turn(
        "Hello, I am Ines from the platform team. Ticket TM-214: for our on-call handbook, find "
        "out how langchain-tokenmem decides how many tokens a request may have. The handbook goes "
        "to print on 2027-02-12. Start with how the package is laid out.",
        [
            Step(
                "I look at the files first.",
                [
                    ("list_files", {"folder": "langchain_tokenmem"}),
                    ("grep", {"pattern": "^class ", "folder": "langchain_tokenmem"}),
                ],
            ),
            Step(
                "The budget has a file of its own.",
                [("read_file", {"path": "langchain_tokenmem/core/budget.py", "lines": 110})],
            ),
        ],
        lambda results: (
            f"The package has {len(results[0].splitlines())} files and "
            f"{_line(results[1], 'matches').split()[0]} classes. How many tokens a request may "
            "have is decided in langchain_tokenmem/core/budget.py, by the class TokenBudget: the "
            "window, less what is reserved for the answer, less a margin for safety."
        ),
    ),
    Turn(
        "Good. What is the limit for our window of 8,000 tokens? Compute it. And note a decision: "
        "we set reserve_output to 1,200 tokens because no answer of our support bot is longer; we "
        "rejected 4,000 since it would halve the history.",
        [
            Step("I compute both.", [("run_python", {"code": LIMITS})]),
            Step(
                "And the lines that it comes from.",
                [("grep", {"pattern": "def limit|_MARGIN", "folder": "langchain_tokenmem/core"})],
            ),
        ],
        lambda results: (
            f"Computed: {_line(results[0], '^default')}; {_line(results[0], '^decided')}; "
            f"{_line(results[0], '^compact')}; {_line(results[0], '^target')}. "
            f"It comes from {_line(results[1], 'def limit')}. Decision noted: reserve_output is "
            "1,200 tokens because no answer of the support bot is longer; 4,000 was rejected since "
            "it would halve the history."
        ),
    ),
    Turn(
        "Our smallest device has a window of 200 tokens. What happens there?",
        [
            Step("I try it.", [("run_python", {"code": TOO_SMALL})]),
            Step(
                "It is refused. I look up the smallest window.",
                [
                    ("grep", {"pattern": "MIN_CONTEXT_WINDOW", "folder": "langchain_tokenmem"}),
                    ("read_file", {"path": "langchain_tokenmem/errors.py", "lines": 60}),
                ],
            ),
        ],
        lambda results: (
            f"It is refused when the budget is made: {_line(results[0], 'Error:')} "
            f"The smallest window is set here: {_line(results[1], 'MIN_CONTEXT_WINDOW = ')}. The "
            "device needs a model with a larger window."
        ),
    ),
    Turn(
        "Where are old tool results shortened, and what becomes of errors in them?",
        [
            Step(
                "I expect a file named after it.",
                [("read_file", {"path": "langchain_tokenmem/core/compaction.py"})],
            ),
            Step(
                "There is no such file. I search for the setting instead.",
                [
                    ("list_files", {"folder": "langchain_tokenmem/core"}),
                    ("grep", {"pattern": "error_chars", "folder": "langchain_tokenmem"}),
                ],
            ),
            Step(
                "It is in core/results.py.",
                [("read_file", {"path": "langchain_tokenmem/core/results.py", "lines": 220})],
            ),
        ],
        lambda results: (
            "Old tool results are shortened in langchain_tokenmem/core/results.py (there is no "
            f"core/compaction.py: {_line(results[0], 'Error')}). Results that report an error keep "
            f"more: {_line(results[2], 'error_chars: int')}"
        ),
    ),
    Turn(
        "Before I trust this: run the tests of the layer rules and of the public names. Marta "
        "reviews the page on 2027-02-03 and will ask.",
        [
            Step(
                "I run both.",
                [
                    ("run_tests", {"path": "tests/test_layer.py"}),
                    ("run_tests", {"path": "tests/test_public_names.py"}),
                ],
            ),
            Step(
                "The first name was wrong; the file is tests/test_layers.py.",
                [("run_tests", {"path": "tests/test_layers.py"})],
            ),
        ],
        lambda results: (
            f"The public names: {_line(results[1], ' in .*s =').strip('= ')}. The layer rules: "
            f"{_line(results[2], ' in .*s =').strip('= ')}. (My first call had a wrong path: "
            f"{_line(results[0], 'ERROR')}.) Noted: Marta reviews the page on 2027-02-03."
        ),
    ),
    Turn(
        "How does the memory decide between shortening and summarizing? Show me the code.",
        [
            Step(
                "That is planning.",
                [
                    ("read_file", {"path": "langchain_tokenmem/core/planning.py", "lines": 130}),
                    (
                        "grep",
                        {
                            "pattern": "summarize_tokens|compact_tokens",
                            "folder": "langchain_tokenmem",
                        },
                    ),
                ],
            ),
            Step(
                "And what drives it.",
                [("read_file", {"path": "langchain_tokenmem/memory.py", "lines": 200})],
            ),
        ],
        lambda results: (
            "langchain_tokenmem/core/planning.py decides, as a pure function; "
            "langchain_tokenmem/memory.py carries it out. First old tool results are shortened; "
            "only where that is not enough the oldest groups go into the running summary. Both "
            f"thresholds are used in {_line(results[1], 'matches').split()[0]} places."
        ),
    ),
    Turn(
        "Who makes a TokenMemory in the tests? Search for the calls, and measure a small request.",
        [
            Step("", [("grep", {"pattern": "TokenMemory(", "folder": "tests"})]),
            Step(
                "The bracket has to be escaped.",
                [
                    ("grep", {"pattern": r"TokenMemory\(", "folder": "tests"}),
                    ("run_python", {"code": MEASURE}),
                ],
            ),
        ],
        lambda results: (
            f"{_line(results[1], 'matches')} in tests/. (My first pattern was refused: "
            f"{_line(results[0], 'Error')}.) Measured: {_line(results[2], 'TokenUsage')}"
        ),
    ),
    Turn(
        "Thank you. Last one: how are broken histories mended before a request, and is the check "
        "for tool calls strict?",
        [
            Step(
                "That is core/legality.py.",
                [
                    ("read_file", {"path": "langchain_tokenmem/core/legality.py", "lines": 150}),
                    ("grep", {"pattern": "^def |^class ", "folder": "langchain_tokenmem/core"}),
                ],
            ),
        ],
        lambda results: (
            "langchain_tokenmem/core/legality.py mends a history before it is sent. It names its "
            f"own purpose: {_line(results[0], chr(34) * 3).split('  ', 1)[-1]}"
        ),
    ),
]
