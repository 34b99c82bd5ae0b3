from webmill.pipeline.reading import open_collection as open_collection

__version__: str
