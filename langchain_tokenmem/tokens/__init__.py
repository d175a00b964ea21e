"""Token counters: exact with a vocabulary, estimated without one."""
