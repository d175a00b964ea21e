"""Extractive entries: a chronicle of verbatim extracts, without a model."""

from langchain_tokenmem.summarize.extractive.summarizer import ExtractiveSummarizer

__all__ = ["ExtractiveSummarizer"]
