"""Parsers of strangers' bytes, fed with mutations: each gives a value or one of our errors, in bounded time.

    python -m tests.fuzz --seconds 60                     every target, by mutation: runs anywhere
    python -m tests.fuzz --seconds 600 --guided robots    guided by coverage (atheris: `make fuzz` installs it)

An input that a parser does not survive is written to --crashes, and belongs into `tests/fuzz/test_fuzz.py` as a case.
"""
