"""Parsers of strangers' bytes, fed with mutations: each gives a value or one of our errors, in bounded time.

    python -m tests.fuzz --seconds 60                     every target, by mutation: runs anywhere
    python -m tests.fuzz --seconds 600 --growth robots    pieces of inputs, repeated: nothing takes the square of them
    python -m tests.fuzz --seconds 600 --guided robots    guided by coverage (atheris: `make fuzz` installs it)

An input that a parser does not survive is written to --crashes. It becomes a test of that parser (docs/reference/
fuzzing.md).
"""
