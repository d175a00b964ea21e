"""Checkpoints of LangGraph threads, each message once."""
