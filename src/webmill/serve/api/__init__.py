"""What the pages show, read from a collection, and the same as JSON (docs/reference/serve-api.md)."""
