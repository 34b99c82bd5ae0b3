"""ZipNum indexes: written in ranges and shards, located, verified."""
