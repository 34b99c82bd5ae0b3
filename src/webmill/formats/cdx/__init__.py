"""Capture indexes: CDXJ lines, their compressed form ZipNum, and queries over them."""
