"""Filters, signatures and mixes, without files."""
