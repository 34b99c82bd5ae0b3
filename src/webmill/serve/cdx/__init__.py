"""The CDX API of pywb and of Common Crawl's index server (docs/reference/cdx-api.md)."""
