"""Notes that are kept on purpose, and stores for them."""
