"""Common Crawl's own data: WARC, WAT and WET files, joined into pages."""
