from webmill.wiring import open_collection as open_collection

__version__: str
