"""Shared by lexical search, vector search and ranking: text parts, documents, worker."""
