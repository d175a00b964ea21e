"""`TokenMemory`: the settings of a memory, and its decisions for one conversation."""
