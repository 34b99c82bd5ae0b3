"""What a document's text, address and columns say about its quality, batch by batch."""
