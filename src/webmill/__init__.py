"""webmill: your own Common Crawl in one package."""

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> object:
    """`open_collection`, the door for programs, is looked for when somebody asks: every module of the house imports
    this one, and must not load what opens storages for that. So it is found by name here, and typed in `__init__.pyi`:
    an import, even one for types only, would put the lowest layer above the highest.
    """
    if name == "open_collection":
        from importlib import import_module

        return import_module("webmill.pipeline.reading").open_collection
    raise AttributeError(f"module 'webmill' has no attribute {name!r}")
