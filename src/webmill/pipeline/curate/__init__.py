"""From the documents of a collection to its corpus, and from the corpus to data sets."""
