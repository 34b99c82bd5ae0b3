"""Archives that wait for the store that they are uploaded to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from webmill.infra.storage.uploads import upload_trouble
from webmill.pipeline.problems.types import ProblemExample, ProblemGroup, clip_text


def upload_problems(root: Path, *, folder: str) -> Iterator[ProblemGroup]:
    """Yield why archives could not be uploaded at the last attempt, if they could not."""
    trouble = upload_trouble(root)
    if trouble is None:
        return
    yield ProblemGroup(
        stage="archive",
        cause="upload",
        severity="error",
        title="WARC files cannot be uploaded",
        count=max(1, trouble.waiting),
        first=trouble.since,
        last=trouble.last,
        examples=[ProblemExample("upload", clip_text(trouble.message), trouble.last)],
        advice="They are kept here. A running crawl tries again every few minutes; else the next run does.",
        command=f"webmill crawl {folder}",
    )
