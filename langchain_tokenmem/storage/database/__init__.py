"""Connections, transactions, schema and row checksums of the SQL database."""
