"""What all publishers do with a run: name it, check that it matches what is live, commit it."""

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

KINDS = frozenset({"boards", "documents"})  # the first part of a run's name: what it publishes
REBASES = 20  # each lost race is somebody else's success
COMMIT_RETRIES = BackoffPolicy(attempts=8, deadline=600.0)


def new_run_name(kind: str, at: datetime) -> str:
    """Return a name that sorts by time and ends with a random token."""
    return f"{kind}-{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def check_kind(storage: Storage, kind: str, *, force: bool) -> None:
    """Raise `Misconfigured` if something else is published here: boards over documents would remove them.

    Also if the history was lost (`history.begin_history`).
    """
    history.begin_history(storage, force=force)
    last = history.read_head(storage)
    live = last.commit.live.run.partition("-")[0] if last else kind
    if live in KINDS and live != kind and not force:
        raise Misconfigured(f"the live version here holds {live}: publish {kind} elsewhere, or replace it with --force")


def commit_with_rebase(publication: Publication) -> PublishResult:
    """Commit; if another publisher was first, build again on its version."""
    for _ in range(REBASES):
        try:
            return retrying(publication.commit, policy=COMMIT_RETRIES)
        except ContentGone:
            raise
        except Conflict as error:
            log.info("another publisher was first: rebuilding on its version", extra={"why": str(error)})
    raise Conflict(f"another publisher was first {REBASES} times: too many publish to this storage at once")
