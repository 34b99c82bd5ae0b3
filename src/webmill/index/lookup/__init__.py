"""Captures looked up in sorted indexes: queries, result pages, the newest capture."""
