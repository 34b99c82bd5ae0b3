"""The stages of `webmill run`, in the order of the river."""

from __future__ import annotations

from webmill.errors import Misconfigured
from webmill.settings import RunSettings

STAGES = ("crawl", "index", "extract", "publish", "search")


def stages_of(settings: RunSettings) -> tuple[str, ...]:
    names = settings.stages
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        raise Misconfigured(f"run.stages: no stage {unknown[0]!r}: there are {', '.join(STAGES)}")
    return tuple(stage for stage in STAGES if stage in names)
