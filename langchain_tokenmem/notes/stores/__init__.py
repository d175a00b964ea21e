"""LangGraph stores: readable JSON files, and the database of a transcript store."""
