"""The `tokenmem` command."""
