"""Nodes and state schemas for LangGraph graphs."""
