"""Counting tokens: exact where the vocabulary is at hand, estimated where it is not."""
