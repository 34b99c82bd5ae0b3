"""Keep a search index equal to what is published."""
