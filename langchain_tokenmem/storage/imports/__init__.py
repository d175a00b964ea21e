"""Import of message histories into sessions, export of sessions, and import of exports."""
