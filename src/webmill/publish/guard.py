"""The check before a version goes live: a broken selector or a dead network must not empty a site."""

from __future__ import annotations

from webmill.errors import Misconfigured

MAX_LOSS = 0.2
MIN_ITEMS = 10  # of the version before; below that a share means nothing


class VersionShrunk(Misconfigured):
    """The new version lost more items than is plausible. Check its errors before you publish it with force."""


def check_size(*, before: int, now: int, fresh: int, max_loss: float = MAX_LOSS) -> None:
    """Raise `VersionShrunk` if too many items are missing. `fresh`: items that this run has seen itself."""
    if not fresh:
        raise VersionShrunk("this run found no items, so nothing was published; to publish it anyway, use --force")
    if before >= MIN_ITEMS and now < before * (1 - max_loss):
        lost = (before - now) / before
        raise VersionShrunk(
            f"{now} items instead of {before}: {lost:.0%} are missing, more than {max_loss:.0%}, so nothing was "
            "published; to publish it anyway, use --force"
        )
