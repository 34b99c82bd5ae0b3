"""Where messages are read from: queues and streams of Amazon."""
