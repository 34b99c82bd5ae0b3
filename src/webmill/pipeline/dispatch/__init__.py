"""The batcher: captures of an index to batches in a queue."""
