"""Items of LangGraph's `BaseStore` in the database."""
