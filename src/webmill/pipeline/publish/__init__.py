"""From boards and documents to versions."""
