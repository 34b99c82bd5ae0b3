"""The search engine that comes along: tantivy, in this process."""
