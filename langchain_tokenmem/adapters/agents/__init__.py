"""Middleware for `langchain.agents.create_agent`."""
