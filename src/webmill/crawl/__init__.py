"""Crawl: which URL is asked next, when it may be asked, and what came of it. What is written down is `archive`'s."""
