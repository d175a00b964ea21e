"""One turn of a conversation, the same for every adapter."""
