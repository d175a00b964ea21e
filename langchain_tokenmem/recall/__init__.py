"""Recall: old messages come back verbatim when they match the question."""
