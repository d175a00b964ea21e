"""Adapters by which an application uses the memory."""
