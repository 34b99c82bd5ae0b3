"""What all publishers do with a run: name it, check that it fits what is live, commit it."""

from __future__ import annotations

import logging
import secrets
from datetime import datetime

from webmill.errors import Conflict, Misconfigured
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.publish.publication import ContentGone, Publication, PublishResult

log = logging.getLogger(__name__)

KINDS = frozenset({"boards", "documents"})  # runs are called after what they publish
REBASES = 20  # each is somebody else's success
COMMIT_RETRIES = BackoffPolicy(attempts=8, deadline=600.0)


def new_run_name(kind: str, at: datetime) -> str:
    """Sorted by time, for people; told apart by chance."""
    return f"{kind}-{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def check_kind(storage: Storage, kind: str, *, force: bool) -> None:
    """A version holds everything: boards published over documents would remove them. Nor is a lost history passed
    over (`history.begin`).
    """
    history.begin_history(storage, force=force)
    last = history.read_head(storage)
    live = last.commit.live.run.partition("-")[0] if last else kind
    if live in KINDS and live != kind and not force:
        raise Misconfigured(f"the live version here is of {live}: publish {kind} somewhere else, or use --force")


def commit_with_rebase(publication: Publication) -> PublishResult:
    """The loser of a race builds anew upon the winner's version."""
    for _ in range(REBASES):
        try:
            return retrying(publication.commit, policy=COMMIT_RETRIES)
        except ContentGone:
            raise
        except Conflict as error:
            log.info("another publisher was first: building upon its version", extra={"why": str(error)})
    raise Conflict(f"{REBASES} times another publisher was first: is this place shared by too many?")
