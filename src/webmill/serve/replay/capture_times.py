"""The times of a page's captures, for the slider of the banner."""

from __future__ import annotations

from itertools import islice

from webmill.formats.cdx.cdxj import prefix_of
from webmill.formats.timestamps import is_timestamp
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.query import url_range

MOST_READ = 20_000  # lines of one page
MOST_SHOWN = 300  # steps of the slider


def capture_times(index: CaptureIndex, url: str, *, shown: str) -> list[str]:
    """Return the times of the captures, oldest first: of many, some evenly, with the first, the last and `shown`."""
    lines = islice(index.lines(url_range(url, "exact")), MOST_READ)
    read = (prefix_of(line).rpartition(b" ")[2] for line in lines)
    times = sorted({time.decode() for time in read if is_timestamp(time)} | {shown})
    if len(times) <= MOST_SHOWN:
        return times
    step = (len(times) - 1) / (MOST_SHOWN - 1)
    return sorted({times[round(number * step)] for number in range(MOST_SHOWN)} | {shown})
