"""Summaries without a model: verbatim extracts, in sections, carried forward without loss."""

from langchain_tokenmem.summarize.extractive.summarizer import ExtractiveSummarizer

__all__ = ["ExtractiveSummarizer"]
