"""Documents, lines and paragraphs that are there more than once, also in earlier corpora, in bounded memory."""
