"""Typed usage of the public API, which mypy checks and nothing runs."""
