"""What the pages show, read from a collection, and the JSON API (docs/reference/serve-api.md)."""
