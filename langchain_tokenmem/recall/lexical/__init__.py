"""Search by words: text analysis and BM25."""
