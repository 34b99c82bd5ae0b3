"""Meilisearch as a search engine."""
