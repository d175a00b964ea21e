"""Settings of every part, from keywords, environment and a file."""
