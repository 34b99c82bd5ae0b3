"""A collection, or what a query finds in it, as one file for others."""
