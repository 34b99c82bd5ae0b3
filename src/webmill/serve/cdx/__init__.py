"""The CDX API of pywb and of Common Crawl's index server, and Memento (docs/reference/cdx-api.md)."""
