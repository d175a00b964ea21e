"""Sessions, messages and memory states as rows."""
