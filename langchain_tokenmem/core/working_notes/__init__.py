"""Working notes: what a session is about, read from its messages. No model, no I/O, no clock."""
