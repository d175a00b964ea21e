"""The engine by hand: budget, memory, state, view, callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, assert_type

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory, TranscriptStore
from langchain_tokenmem.counting import ProviderCounter, TokenCount, TokenCounter, counter_for
from langchain_tokenmem.events import MemoryCallbacks, MemoryEvent
from langchain_tokenmem.modes import (
    ModeProfile,
    ToolKinds,
    TurnMemory,
    TurnMemorySettings,
    format_message_for_provider,
)
from langchain_tokenmem.types import (
    BackgroundSummaries,
    Explanation,
    LegalityProfile,
    MemoryState,
    RemovalReceipt,
    RequestRules,
    RunningSummary,
    Shares,
    TokenUsage,
    View,
)


def budgets(model: BaseChatModel) -> None:
    """Make budgets, by hand and from a model."""
    budget = TokenBudget(8_000, reserve_output=500, target=0.4, model="gpt-4o")
    assert_type(budget, TokenBudget)
    assert_type(budget.limit, int)
    assert_type(budget.margin, float | None)
    assert_type(TokenBudget.for_model(model, shares=Shares(recent=0.2)), TokenBudget)


def counters(model: BaseChatModel, messages: list[BaseMessage]) -> TokenMemory:
    """Count by a name, and as the provider does."""
    counter = counter_for("gpt-4o")
    assert_type(counter, TokenCounter)
    count = counter.count(messages, tools=[])
    assert_type(count, TokenCount)
    assert_type(count.method, Literal["exact", "provider", "corrected", "estimate"])
    assert_type(count.is_estimate, bool)
    asking = ProviderCounter(model, timeout_s=1.0)
    assert_type(asking.count(messages), TokenCount)
    return TokenMemory(TokenBudget.for_model(model), counter=asking)


def turn(messages: list[BaseMessage], state: MemoryState | None) -> MemoryState:
    """Compact and view, with a state and without one."""
    mode = ModeProfile("support", window=10, sections=("facts",))
    memory = TokenMemory(TokenBudget(context_window=8_000), trigger=("messages", 40), mode=mode)
    assert_type(memory.mode_of(state), ModeProfile | None)
    view = memory.view(messages, state, system="Be brief.", tools=[])
    assert_type(view, View)
    assert_type(view.messages, list[BaseMessage])
    assert_type(view.warnings, tuple[str, ...])
    assert_type(view.usage, TokenUsage)
    assert_type(view.usage.parts["tail"], int)
    assert_type(view.usage.percent_used, float)
    assert_type(memory.count(messages).tokens, int)
    return memory.compact(messages, state, force=True, instruction="Keep prices.")


async def later(messages: list[BaseMessage]) -> None:
    """Do the same from an event loop, and look into the state."""
    memory = TokenMemory()
    state = await memory.acompact(messages)
    assert_type(state, MemoryState)
    assert_type(state["summary"], RunningSummary | None)
    if summary := state["summary"]:
        assert_type(summary["entries"][0]["text"], str)
        assert_type(summary["covered"], int)
    await memory.aclose()


def explained(messages: list[BaseMessage]) -> None:
    """Explain a call without making it."""
    told = TokenMemory(request=RequestRules(legality="anthropic")).explain(messages)
    assert_type(told, Explanation)
    assert_type(told.parts.tokens, int)
    assert_type(told.profile, str)


class Log(MemoryCallbacks):
    """Notes what every summary took."""

    def on_memory_end(self, event: MemoryEvent) -> None:
        """Note one."""
        assert_type(event.ids, tuple[str, ...])
        assert_type(event.cost, float | None)


def shout(
    messages: list[BaseMessage], prior: str | None, instruction: str | None, max_tokens: int
) -> str:
    """Summarize by a function."""
    return f"{len(messages)} more than in {len(prior or '')} letters, {instruction}"[:max_tokens]


def memories(model: BaseChatModel) -> list[TokenMemory]:
    """Take a model, its name, a runnable or a function as summarizer; own rules; callbacks."""
    own = LegalityProfile("own", alternates=True)
    return [
        TokenMemory(summarizer=model, callbacks=[Log()]),
        TokenMemory(summarizer="openai:gpt-4o-mini", background=False),
        TokenMemory(summarizer=model, background=BackgroundSummaries(timeout_s=60)),
        TokenMemory(summarizer=model.bind(temperature=0), request=RequestRules(legality=own)),
        TokenMemory(summarizer=shout, request=RequestRules(dangling="drop"), trigger=None),
        TokenMemory().for_model(model),
    ]


def unions_of_messages_are_taken() -> None:
    """Take lists of narrower types, as they come from applications."""
    said: list[HumanMessage | AIMessage] = [HumanMessage("Hi."), AIMessage("Hello.")]
    assert_type(TokenMemory().view(said).left_out, int)


def turn_memories(message: AIMessage) -> TokenMemory:
    """Name tools that write and run; show a turn memory outside of a view."""
    memory: TurnMemory = {"files_changed": ["b.go"], "failed_commands": []}
    assert_type(format_message_for_provider(message, memory), BaseMessage)
    kinds = ToolKinds(writes={"save": "path"}, commands={"job": "line"}, reads={"preview"})
    return TokenMemory(
        turn_memory=TurnMemorySettings(tools=kinds, project_root="/app", shown="always")
    )


def redactions(memory: TokenMemory, store: TranscriptStore) -> None:
    """Remove words for good."""
    assert_type(store.redact("4111", user_id="ann", dry_run=True), RemovalReceipt)
    assert_type(memory.redact("4111", store=store, everywhere=True).counts, Mapping[str, int])
    assert_type(store.purge_superseded(session_id="s").unreached, tuple[str, ...])
