"""Queued captures to documents: `workers` work the queue, `run` does all from index to files."""
