"""Gzip, Zstandard, Brotli, deflate and ZIP, read within limits."""
