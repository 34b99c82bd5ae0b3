"""webmill: your own Common Crawl in one package.

    import webmill

    webmill.crawl("news/", ["https://example.org/"], contact="me@example.org", max_pages=100)
    webmill.run("news/")
    for hit in webmill.search("news/", "annual report").hits: ...
    for document in webmill.documents("news/"): ...
"""

__version__ = "0.1.0.dev0"

_API, _SETTINGS = "webmill.pipeline.api", "webmill.settings"
_HOMES = {
    "open_collection": "webmill.pipeline.reading",
    "documents": "webmill.pipeline.documents",
    "crawl": _API,
    "index": _API,
    "extract": _API,
    "publish": _API,
    "search": _API,
    "update_search": _API,
    "run": _API,
    "Settings": _SETTINGS,
    "CrawlSettings": _SETTINGS,
    "IndexSettings": _SETTINGS,
    "ExtractSettings": _SETTINGS,
    "PublishSettings": _SETTINGS,
    "SearchSettings": _SETTINGS,
}


def __getattr__(name: str) -> object:
    """Look for the doors of programs when somebody asks: every module of the house imports this one, and must not load
    what opens storages for that. So they are found by name here, and typed in `__init__.pyi`: an import, even one for
    types only, would put the lowest layer above the highest.
    """
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'webmill' has no attribute {name!r}")
