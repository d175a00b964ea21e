"""The command `tokenmem`: replays recordings, migrates and checks stored threads."""
