"""Where transcripts and memory states are kept."""
