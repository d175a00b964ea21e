"""The public names are a contract: each is there, means one thing, and says what it is for."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import langchain_tokenmem
from langchain_tokenmem import errors

EXPECTED = {
    "AfterModelNode",
    "ChromaIndex",
    "CompactCallbacks",
    "CompactEvent",
    "CompactNode",
    "Explanation",
    "HashingEmbeddings",
    "JsonStore",
    "LegalityProfile",
    "LexicalIndex",
    "MemoryAgentState",
    "MemoryMessagesState",
    "MemoryNode",
    "MemoryState",
    "ModeProfile",
    "Note",
    "Notebook",
    "ProviderCounter",
    "Recall",
    "RecallNode",
    "RunningSummary",
    "SqlStore",
    "SummarizeNode",
    "ThreadConflictError",
    "TokenBudget",
    "TokenCount",
    "TokenCounter",
    "TokenMemory",
    "TokenMemoryChatHistory",
    "TokenMemoryMiddleware",
    "TokenMemorySaver",
    "TokenMemorySettings",
    "TokenUsage",
    "ToolKinds",
    "TranscriptRetriever",
    "TranscriptStore",
    "Trigger",
    "TurnMemory",
    "VectorStoreIndex",
    "View",
    "compact_conversation_tool",
    "counter_for",
    "format_message_for_provider",
    "memory_input",
    "memory_nodes",
    "memory_tools",
    "pin_update",
    "read_message_tool",
    "record_decision_tool",
    "set_goal_tool",
    "with_token_memory",
}
ERRORS = {
    "BudgetExceededError",
    "ConfigurationError",
    "CorruptStoreError",
    "HistoryImportError",
    "RecallError",
    "ScopeError",
    "StoreError",
    "SummaryError",
    "ThreadConflictError",
    "TokenMemoryError",
}


def test_the_public_names_are_these():
    assert set(langchain_tokenmem.__all__) == EXPECTED


def test_the_public_names_are_sorted_and_listed():
    assert list(langchain_tokenmem.__all__) == sorted(langchain_tokenmem.__all__)
    assert set(langchain_tokenmem.__all__) <= set(dir(langchain_tokenmem))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_public_name_resolves_and_is_documented(name):
    value = getattr(langchain_tokenmem, name)
    assert inspect.getdoc(value)
    assert value.__doc__
    assert value.__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = langchain_tokenmem.no_such_name


def test_the_error_classes_are_these():
    found = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert found == ERRORS


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_every_error_is_in_the_tree_and_is_documented(name):
    error = getattr(errors, name)
    assert issubclass(error, errors.TokenMemoryError)
    assert error.__doc__
    assert name in (errors.__doc__ or "")


def test_every_public_name_is_used_in_the_typed_examples():
    files = sorted((Path(__file__).parent / "typing").glob("*.py"))
    used = {
        alias.name
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "langchain_tokenmem"
        for alias in node.names
    }
    assert used == EXPECTED
