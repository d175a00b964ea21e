"""Writing running summaries."""
