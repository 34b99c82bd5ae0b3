"""Captures by address: raw, and by Memento; what replay builds on."""
