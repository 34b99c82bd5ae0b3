"""The systems that webmill replaces: one file for each of their documents. A test names the sentence or the example
that it checks; `make docs` makes the tables of `docs/how-to/from-*.md` of them."""
