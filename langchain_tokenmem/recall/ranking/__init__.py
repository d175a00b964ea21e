"""One ranking from the lexical and the vector scores."""
