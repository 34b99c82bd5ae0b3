"""Replay of archived pages on an origin of their own (docs/reference/replay.md)."""
