"""webmill: your own Common Crawl in one package.

import webmill

webmill.crawl("news/", ["https://example.org/"], contact="me@example.org", max_pages=100)
webmill.run("news/")
for hit in webmill.search("news/", "annual report").hits: ...
for document in webmill.documents("news/"): ...
"""

__version__ = "0.1.0.dev0"

import sys
from types import ModuleType
from typing import Any

_API, _SETTINGS = "webmill.pipeline.api", "webmill.settings"
_STAGES = ("crawl", "index", "extract", "curate", "publish", "search")  # rooms whose names are also functions
_HOMES = {
    "connect": "webmill.pipeline.remote_collection",
    "open_collection": "webmill.pipeline.collection_reader",
    "documents": "webmill.pipeline.documents",
    "corpus": "webmill.pipeline.curate.kept",
    "update_search": _API,
    "run": _API,
    "save": _API,
    "Settings": _SETTINGS,
    "CrawlSettings": _SETTINGS,
    "IndexSettings": _SETTINGS,
    "ExtractSettings": _SETTINGS,
    "CurateSettings": _SETTINGS,
    "PublishSettings": _SETTINGS,
    "SearchSettings": _SETTINGS,
    "hookimpl": "webmill.infra.plugins.hooks",
    "PluginPage": "webmill.infra.plugins.hooks",
}


class _Stage(ModuleType):
    """A room that is also the function of its name: `webmill.crawl` holds the crawler, `webmill.crawl(…)` crawls."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return getattr(_load(_API), self.__name__.rpartition(".")[2])(*arguments, **keywords)


class _Package(ModuleType):
    """Finds the functions for programs when somebody asks: every module of the house imports this one, and must not
    load what opens storages for that. They are typed in `__init__.pyi`: an import here, even one for types only, would
    put the lowest layer above the highest.
    """

    def __getattr__(self, name: str) -> Any:
        if name in _STAGES:
            return _load(f"{__name__}.{name}")
        if name in _HOMES:
            return getattr(_load(_HOMES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Whoever imports a room puts it here."""
        if name in _STAGES and type(value) is ModuleType:
            value.__class__ = _Stage
        super().__setattr__(name, value)


def _load(module: str) -> ModuleType:
    from importlib import import_module

    return import_module(module)


sys.modules[__name__].__class__ = _Package
