"""The command `tokenmem`: replay recorded conversations through the memory."""
