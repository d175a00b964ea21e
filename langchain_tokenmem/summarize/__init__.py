"""Summarizers: extractive, by a chat model, or by a function."""
