"""Storage of transcripts, checkpoints and the search index in SQLite or PostgreSQL."""
