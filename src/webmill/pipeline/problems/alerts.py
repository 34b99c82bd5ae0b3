"""Messages about changes that were not delivered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from webmill.pipeline.alerts.inspect import TargetStatus, outbox_files, read_outboxes
from webmill.pipeline.problems.types import ProblemExample, ProblemGroup, clip_text

PREFIX = "alert:"  # of the name of a retry


def alert_files(root: Path) -> dict[str, Path]:
    """Return the files of the outboxes, by the name that a retry has."""
    return {f"{PREFIX}{file.stem}": file for file in outbox_files(root)}


def alert_problems(root: Path, *, folder: str) -> Iterator[ProblemGroup]:
    """Yield the messages that were given up, and those that failed and are tried again."""
    for outbox in read_outboxes(root):
        if outbox.dead:
            yield _given_up(outbox, folder)
        if outbox.waiting and outbox.reason:
            yield _failing(outbox, folder)


def _given_up(outbox: TargetStatus, folder: str) -> ProblemGroup:
    times = [letter.when for letter in outbox.letters]
    return ProblemGroup(
        stage="alert",
        cause="not_delivered",
        severity="error",
        title=f"Messages to {clip_text(outbox.target)} were given up",
        count=outbox.dead,
        first=min(times, default=None),
        last=max(times, default=None),
        examples=[ProblemExample(one.id, clip_text(one.reason), one.when) for one in outbox.letters],
        advice="Remove the cause (`webmill alerts test` tries the target), then send them again.",
        command=f"webmill alerts retry {folder}",
        retry=f"{PREFIX}{outbox.key}",
    )


def _failing(outbox: TargetStatus, folder: str) -> ProblemGroup:
    return ProblemGroup(
        stage="alert",
        cause="delivery_failed",
        severity="error",
        title=f"Messages to {clip_text(outbox.target)} could not be delivered yet",
        count=outbox.waiting,
        last=outbox.since,
        examples=[ProblemExample(clip_text(outbox.target), clip_text(outbox.reason), outbox.since)],
        advice="They are sent again, in order, with growing pauses; `webmill alerts list` tells when.",
        command=f"webmill alerts retry {folder}",
    )
