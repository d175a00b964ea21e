"""Search index: postings, vectors, documents and outbox, beside the transcripts."""
