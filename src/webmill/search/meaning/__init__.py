"""Search by meaning: vectors of passages beside the words of an engine, and both fused by rank."""
