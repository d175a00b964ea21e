"""Recall: old messages come back verbatim when they match the question."""

from langchain_tokenmem._lazy import loader

__getattr__, __dir__, __all__ = loader(__name__, __file__)
