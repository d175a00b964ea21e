"""Cost of the memory per model call of an agent, beside counting the list approximately.

Run: python benchmarks/middleware_cost.py [--messages 10000] [--times 15]

Every row is one model call with that many messages in the agent's state, the model's own time
left out. LangChain's SummarizationMiddleware always runs; LangMem and deepagents where they are
installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

from langchain.agents.middleware import (
    AgentState,
    ModelRequest,
    ModelResponse,
    SummarizationMiddleware,
)
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.runtime import Runtime

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryMiddleware

WINDOW = 8_000
WORDS = "the order number is noted and the customer asks about the delivery on friday morning "


def conversation(size: int) -> list[AnyMessage]:
    """Return `size` messages of about 0.6 kB."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"{n}: {WORDS * (4 + 6 * (n % 2))}", id=f"m{n}") for n in range(size)]


def median(run: Callable[[], object], times: int) -> float:
    """Return the median time of `times` runs in seconds, after one that warms caches."""
    run()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def middleware_call(
    messages: list[AnyMessage], model: FakeListChatModel, window: int = WINDOW
) -> Callable[[], object]:
    """Return one call of our middleware, over a state that is compacted as far as is due."""
    memory = TokenMemory(TokenBudget(context_window=window))
    middleware = TokenMemoryMiddleware(memory)
    answer = ModelResponse([AIMessage("ok")])
    state = memory.compact(messages[:-6])
    held: Any = {"messages": messages, "token_memory": {middleware.name: state}}

    def call() -> object:
        request = ModelRequest(model=model, messages=messages, state=held, runtime=Runtime())
        return middleware.wrap_model_call(request, lambda _: answer)

    return call


def peers(messages: list[AnyMessage], model: FakeListChatModel) -> dict[str, Callable[[], object]]:
    """Return one call of each peer that is installed, its summarization not triggered."""
    own = SummarizationMiddleware(model, trigger=("tokens", 10**9))
    held: AgentState[Any] = {"messages": messages}
    rows: dict[str, Callable[[], object]] = {
        "LangChain SummarizationMiddleware": lambda: own.before_model(held, Runtime())
    }
    if importlib.util.find_spec("langmem"):
        from langmem.short_term import SummarizationNode  # noqa: PLC0415

        node = SummarizationNode(model=model, max_tokens=10**9)
        rows["LangMem SummarizationNode"] = lambda: node.invoke({"messages": messages})
    if importlib.util.find_spec("deepagents"):
        from deepagents.backends import StateBackend  # noqa: PLC0415
        from deepagents.middleware.summarization import (  # noqa: PLC0415
            SummarizationMiddleware as DeepAgentsMiddleware,
        )

        deep = DeepAgentsMiddleware(
            model, backend=StateBackend(), trigger=("tokens", 10**9), keep=("messages", 20)
        )
        request = ModelRequest(model=model, messages=messages, state=held)
        answer = ModelResponse([AIMessage("ok")])
        rows["deepagents SummarizationMiddleware"] = lambda: deep.wrap_model_call(
            request, lambda _: answer
        )
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=15)
    options = parser.parse_args()
    messages = conversation(options.messages)
    model = FakeListChatModel(responses=["a summary"])
    # Interleaved, so that a noisy machine is noisy for all of them.
    rows: dict[str, Callable[[], object]] = {
        "count_tokens_approximately": lambda: count_tokens_approximately(messages),
        "TokenMemoryMiddleware": middleware_call(messages, model),
        **peers(messages, model),
    }
    taken: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(5):
        for name, run in rows.items():
            taken[name].append(median(run, max(1, options.times // 5)))
    costs = {name: min(times) for name, times in taken.items()}
    base = costs["count_tokens_approximately"]
    print(f"one model call with {options.messages:,} messages in the state:")
    for name, seconds in costs.items():
        print(f"  {name:40s} {seconds * 1e3:9.2f} ms  {seconds / base:6.2f} times")
    for name in ("langmem", "deepagents"):
        if importlib.util.find_spec(name) is None:
            print(f"  {name:40s} not installed")
    print("  (the memory has compacted before, the peers have nothing to do and count)")
    wide = middleware_call(messages, model, window=400 * options.messages + 10_000)
    counted = median(rows["count_tokens_approximately"], 5)
    seconds = median(wide, 5)
    print(
        f"  a window so wide that nothing is covered {seconds * 1e3:9.2f} ms, ours, "
        f"{seconds / counted:.2f} times the count, called again on the same messages"
    )
    ours = costs["TokenMemoryMiddleware"] / base
    print(f"ratio {ours:.2f} (promised: at most 0.4)")


if __name__ == "__main__":
    main()
