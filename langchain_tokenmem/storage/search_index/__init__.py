"""The index of recall, beside the transcripts: postings, vectors, documents, and what is owed."""
