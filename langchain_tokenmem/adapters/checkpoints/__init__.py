"""A LangGraph checkpointer over the transcript store."""
