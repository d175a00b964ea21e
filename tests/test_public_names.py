"""The public names are a contract: each is there, means one thing, and says what it is for."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import langchain_tokenmem
from langchain_tokenmem import Recall, TokenBudget, TokenMemory, TranscriptStore, errors
from langchain_tokenmem.recall import HashingEmbeddings

LISTED = """
: CompactNode MemoryMessagesState MemoryNode Notebook Recall RecallNode SummarizeNode TokenBudget
  TokenMemory TokenMemoryChatHistory TokenMemoryMiddleware TokenMemorySaver TokenMemorySettings
  TranscriptRetriever TranscriptStore memory_input memory_nodes memory_tools with_token_memory
.counting: ProviderCounter TokenCount TokenCounter counter_for
.graphs: AfterModelNode MemoryAgentState TokenMemoryTransformer aexplain_call explain_call
  pin_update
.modes: ModeProfile ToolKinds TurnMemory TurnMemorySettings format_message_for_provider
.notes: JsonStore Note SqlStore
.recall: ChromaIndex HashingEmbeddings LexicalIndex VectorStoreIndex
.summarizers: ExtractiveSummarizer ModelSummarizer Summarizer Summary SummaryPrompts SummaryRequest
.tools: compact_conversation_tool read_message_tool record_decision_tool set_goal_tool
.types: BackgroundSummaries Explanation LegalityProfile MemoryState RemovalReceipt RequestRules
  RunningSummary Shares TokenUsage View
"""
EXPECTED: dict[str, list[str]] = {
    module: names.split()
    for module, names in re.findall(r"^([.a-z]*): ((?:.+\n?)(?:  .+\n)*)", LISTED, re.MULTILINE)
}
NAMES = [(module, name) for module, names in EXPECTED.items() for name in names]
ERRORS = [
    *("BudgetExceededError", "ConfigurationError", "CorruptStoreError", "HistoryImportError"),
    *("RecallError", "RedactionError", "ScopeError", "StoreError", "SummaryError"),
    *("ThreadConflictError", "TokenMemoryError"),
]


@pytest.mark.parametrize("module", EXPECTED)
def test_the_public_names_are_these(module):
    found = import_module(f"langchain_tokenmem{module}")
    assert list(found.__all__) == EXPECTED[module]
    assert set(found.__all__) <= set(dir(found))


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_is_documented_and_its_repr_says_what_it_is(module, name):
    value = getattr(import_module(f"langchain_tokenmem{module}"), name)
    assert value.__doc__
    assert value.__name__ == name
    if inspect.isclass(value) and not getattr(value, "_is_protocol", False):
        assert value.__repr__ is not object.__repr__


def test_a_repr_shows_the_parts():
    recall = Recall(TranscriptStore("sqlite://"), embeddings=HashingEmbeddings())
    assert repr(TokenMemory(8_000, recall=recall)) == (
        "TokenMemory(8000, summarizer=ExtractiveSummarizer(), recall=Recall(TranscriptStore("
        "'sqlite://'), <vectors of HashingEmbeddings>))"
    )


def test_there_are_few_names_and_settings_that_belong_together_are_one_value():
    assert len(langchain_tokenmem.__all__) <= 20
    assert len(inspect.signature(TokenMemory).parameters) <= 16
    assert len(inspect.signature(TokenBudget).parameters) <= 9


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = langchain_tokenmem.no_such_name


def test_the_error_classes_are_these_and_are_documented():
    found = {n: one for n, one in vars(errors).items() if inspect.isclass(one)}
    own = {name: error for name, error in found.items() if error.__module__ == errors.__name__}
    assert sorted(own) == ERRORS
    for name, error in own.items():
        assert issubclass(error, errors.TokenMemoryError)
        assert error.__doc__
        assert name in (errors.__doc__ or "")


def test_every_public_name_is_used_in_the_typed_examples():
    used = (Path(__file__).parent / "typing" / "usage.py").read_text(encoding="utf-8")
    of_types = [(module, name) for module, name in NAMES if module != ".summarizers"]
    assert [name for _, name in of_types if not re.search(rf"\b{name}\b", used)] == []
