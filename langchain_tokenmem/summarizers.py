"""Summarizers: extractive, by a chat model, or by a function."""

from langchain_tokenmem.summarize.base import Summarizer, Summary, SummaryRequest
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.summarize.prompts import SummaryPrompts

__all__ = [
    "ExtractiveSummarizer",
    "ModelSummarizer",
    "Summarizer",
    "Summary",
    "SummaryPrompts",
    "SummaryRequest",
]
