"""What the documents of a version carry of their sites' preferences: a report, counted from its items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from webmill.publish.types import PublishedItem

MOST_LICENSES = 1000  # that are counted apart
OTHERS = "other licences"


class UsageCounts(msgspec.Struct, kw_only=True):
    """How many documents carry each preference (`train-ai=n`), each licence, and none of either."""

    documents: int = 0
    silent: int = 0  # no preference; they may have a licence
    usage: dict[str, int] = {}
    licenses: dict[str, int] = {}


def count_usage(items: Iterable[PublishedItem]) -> UsageCounts:
    found, usage, licenses = UsageCounts(), Counter[str](), Counter[str]()
    for item in items:
        found.documents += 1
        said, license_ = item.metadata.get("usage"), item.metadata.get("license")
        if isinstance(said, str) and said:
            usage.update(said.split(","))
        else:
            found.silent += 1
        if isinstance(license_, str) and license_:
            licenses[license_ if license_ in licenses or len(licenses) < MOST_LICENSES else OTHERS] += 1
    found.usage, found.licenses = dict(usage), dict(licenses)
    return found
