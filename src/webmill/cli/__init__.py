"""Flags in, exit code out. One file per command group, imported only when it is called."""
