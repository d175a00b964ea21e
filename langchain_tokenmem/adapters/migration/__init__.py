"""Copies of threads from other LangGraph checkpointers."""
