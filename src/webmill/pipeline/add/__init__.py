"""Archives that were made elsewhere come into a collection."""
