"""webmill: your own Common Crawl in one package."""

__version__ = "0.1.0.dev0"
