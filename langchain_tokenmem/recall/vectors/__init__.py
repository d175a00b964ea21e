"""Search by embeddings: vectors in the store and in Chroma."""
