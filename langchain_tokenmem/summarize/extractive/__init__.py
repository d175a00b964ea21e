"""Extractive summaries: verbatim extracts in sections, without a model."""

from langchain_tokenmem.summarize.extractive.summarizer import ExtractiveSummarizer

__all__ = ["ExtractiveSummarizer"]
