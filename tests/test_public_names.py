"""The public names are a contract: each is there, means one thing, and says what it is for."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import InMemoryVectorStore

import langchain_tokenmem
from langchain_tokenmem import (
    CompactNode,
    Notebook,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    errors,
)
from langchain_tokenmem.notes import JsonStore, SqlStore
from langchain_tokenmem.recall import HashingEmbeddings, VectorStoreIndex
from langchain_tokenmem.summarizers import ModelSummarizer

EXPECTED: dict[str, set[str]] = {
    "langchain_tokenmem": {
        "CompactNode",
        "MemoryMessagesState",
        "MemoryNode",
        "Notebook",
        "Recall",
        "RecallNode",
        "SummarizeNode",
        "TokenBudget",
        "TokenMemory",
        "TokenMemoryChatHistory",
        "TokenMemoryMiddleware",
        "TokenMemorySaver",
        "TokenMemorySettings",
        "TranscriptRetriever",
        "TranscriptStore",
        "memory_input",
        "memory_nodes",
        "memory_tools",
        "with_token_memory",
    },
    "langchain_tokenmem.counting": {"ProviderCounter", "TokenCount", "TokenCounter", "counter_for"},
    "langchain_tokenmem.graphs": {
        "AfterModelNode",
        "MemoryAgentState",
        "TokenMemoryTransformer",
        "aexplain_call",
        "explain_call",
        "pin_update",
    },
    "langchain_tokenmem.modes": {
        "ModeProfile",
        "ToolKinds",
        "TurnMemory",
        "TurnMemorySettings",
        "format_message_for_provider",
    },
    "langchain_tokenmem.notes": {"JsonStore", "Note", "SqlStore"},
    "langchain_tokenmem.recall": {
        "ChromaIndex",
        "HashingEmbeddings",
        "LexicalIndex",
        "VectorStoreIndex",
    },
    "langchain_tokenmem.summarizers": {
        "ExtractiveSummarizer",
        "ModelSummarizer",
        "Summarizer",
        "Summary",
        "SummaryPrompts",
        "SummaryRequest",
    },
    "langchain_tokenmem.tools": {
        "compact_conversation_tool",
        "read_message_tool",
        "record_decision_tool",
        "set_goal_tool",
    },
    "langchain_tokenmem.types": {
        "BackgroundSummaries",
        "Explanation",
        "LegalityProfile",
        "MemoryState",
        "RemovalReceipt",
        "RequestRules",
        "RunningSummary",
        "Shares",
        "TokenUsage",
        "View",
    },
}
NAMES = [(module, name) for module, names in EXPECTED.items() for name in sorted(names)]
ERRORS = {
    "BudgetExceededError",
    "ConfigurationError",
    "CorruptStoreError",
    "HistoryImportError",
    "RecallError",
    "RedactionError",
    "ScopeError",
    "StoreError",
    "SummaryError",
    "ThreadConflictError",
    "TokenMemoryError",
}


@pytest.mark.parametrize("module", EXPECTED)
def test_the_public_names_are_these(module):
    found = import_module(module)
    assert set(found.__all__) == EXPECTED[module]
    assert list(found.__all__) == sorted(found.__all__)
    assert set(found.__all__) <= set(dir(found))


def test_the_top_level_has_at_most_twenty_names():
    assert len(langchain_tokenmem.__all__) <= 20


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_resolves_and_is_documented(module, name):
    value = getattr(import_module(module), name)
    assert inspect.getdoc(value)
    assert value.__doc__
    assert value.__name__ == name


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_the_repr_of_a_public_object_says_what_it_is(module, name):
    value = getattr(import_module(module), name)
    if inspect.isclass(value) and not getattr(value, "_is_protocol", False):
        assert value.__repr__ is not object.__repr__


def test_reprs_are_short_and_show_the_parts(tmp_path):
    store = TranscriptStore("sqlite://")
    recall = Recall(store, embeddings=HashingEmbeddings())
    memory = TokenMemory(8_000, recall=recall, notes=Notebook(project="shop"))
    text = (
        "TokenMemory(8000, summarizer=ExtractiveSummarizer(), recall=Recall(TranscriptStore("
        "'sqlite://'), <vectors of HashingEmbeddings>), notes=Notebook(None, project='shop'))"
    )
    assert repr(memory) == text
    assert repr(TokenMemoryMiddleware(memory)) == (
        f"TokenMemoryMiddleware({text}, name='TokenMemoryMiddleware')"
    )
    assert repr(CompactNode(TokenMemory(8_000))) == (
        "CompactNode(TokenMemory(8000, summarizer=ExtractiveSummarizer()), state_key='memory')"
    )
    assert "'s1', memory=TokenMemory(" in repr(TokenMemoryChatHistory("s1", store=store))
    assert repr(Recall(store)) == "Recall(TranscriptStore('sqlite://'))"
    assert repr(SqlStore(store)) == "SqlStore(TranscriptStore('sqlite://'))"
    assert repr(JsonStore(tmp_path)) == f"JsonStore({str(tmp_path)!r})"
    model = FakeListChatModel(responses=["short"])
    assert repr(ModelSummarizer(model)) == "ModelSummarizer('FakeListChatModel')"
    where = VectorStoreIndex(InMemoryVectorStore(HashingEmbeddings(64)))
    assert repr(where) == "<VectorStoreIndex: the vector store InMemoryVectorStore>"


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
        (node.module, alias.name)
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module in EXPECTED
        for alias in node.names
    }
    assert {name for name in NAMES if name[0] != "langchain_tokenmem.summarizers"} <= used


@pytest.mark.parametrize(("made", "most"), [(TokenMemory, 16), (TokenBudget, 9)])
def test_settings_that_belong_together_are_one_value(made, most):
    assert len(inspect.signature(made).parameters) <= most
