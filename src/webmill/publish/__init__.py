"""Versioned data sets: content under its hash, versions that share what did not change, one pointer to the live one."""
