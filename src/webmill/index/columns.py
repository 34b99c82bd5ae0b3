"""Index files in columns (CDX) are read as CDXJ, wherever lines are read: every other tool knows CDXJ alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import from_columns, prefix_of
from webmill.formats.cdx.columns import Columns, parse_header, split_columns
from webmill.index.lines import Batch


def as_cdxj(batches: Iterable[Batch], *, columns: Columns | None = None) -> Iterator[Batch]:
    """Pass CDXJ on as it is, and the lines of a CDX file as CDXJ, without its header.

    The first line tells which it is: CDXJ pays for one line, not for each. A line that is neither stays as it is.
    """
    source = iter(batches)
    for batch in source:
        if columns or is_in_columns(batch[0]):
            yield from _convert(chain([batch], source), columns)
        else:
            yield batch
            yield from source


def is_in_columns(line: bytes) -> bool:
    """Return whether a line is the header of a CDX file or has its columns."""
    return b" {" not in line and (parse_header(line) is not None or split_columns(line) is not None)


def _convert(batches: Iterable[Batch], columns: Columns | None) -> Iterator[Batch]:
    """Yield the lines as CDXJ. Those of one key and time may sort otherwise as JSON: the last of a batch are held."""
    held: Batch = []
    for batch in batches:
        for line in batch:
            if header := parse_header(line):
                columns = header
            else:
                held.append(_convert_line(line, columns))
        runs = [sorted(run) for _, run in groupby(held, key=prefix_of)]
        held = runs.pop() if runs else []
        if runs:
            yield [*chain.from_iterable(runs)]
    if held:
        yield held


def _convert_line(line: bytes, columns: Columns | None) -> bytes:
    try:
        return line if b" {" in line else from_columns(line, columns)
    except BadInput:
        return line  # whoever parses it says what is wrong
