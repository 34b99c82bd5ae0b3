"""Full-text search over what is published: the seam (`base`), the query language, and the engines behind it."""
