"""Chat history and runnable for LangChain chains."""
