"""Programs of whole crawlers that we race against. They run in .venv-rivals, where webmill is not installed."""
