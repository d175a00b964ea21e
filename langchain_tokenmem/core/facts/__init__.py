"""Facts of a conversation: what was said, what tools did, and what their results brought."""
