"""Before a version goes live: is it plausible? A broken selector or a dead network must not empty a site."""

from __future__ import annotations

from webmill.errors import Misconfigured

MAX_LOSS = 0.2
MIN_ITEMS = 10  # below so many items a share means nothing


class VersionShrunk(Misconfigured):
    """The new version lost too much to be believed. Look at its errors, then repeat with force or not at all."""


def check_size(*, before: int, now: int, fresh: int, most_lost: float = MAX_LOSS) -> None:
    """`fresh`: items that this run has seen itself; the others were taken over from the version before."""
    if not fresh:
        raise VersionShrunk(
            "this run has found no items at all: nothing is published; --force publishes it nevertheless"
        )
    if before >= MIN_ITEMS and now < before * (1 - most_lost):
        lost = (before - now) / before
        raise VersionShrunk(
            f"{now} items after {before}: a loss of {lost:.0%} is more than {most_lost:.0%}; nothing is published; "
            "--force publishes it nevertheless"
        )
