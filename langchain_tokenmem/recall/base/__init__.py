"""Shared by lexical search, vector search and ranking: interfaces, text parts, worker."""
