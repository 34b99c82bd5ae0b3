"""Archived pages as they were, on an origin of their own: enough to read and to browse (docs/reference/replay.md)."""
