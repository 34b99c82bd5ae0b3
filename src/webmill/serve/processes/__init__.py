"""The processes and threads of a server: supervisor, workers, shared counters, health."""
