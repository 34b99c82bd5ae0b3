"""HTML pages: their encoding, tokens, head, links, text and publication date."""
