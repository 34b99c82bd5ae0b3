"""What is fuzzed, by name."""

from __future__ import annotations

from tests.fuzz import targets_archives, targets_formats, targets_messages, targets_serve
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        *targets_formats.TARGETS,
        *targets_archives.TARGETS,
        *targets_messages.TARGETS,
        *targets_serve.TARGETS,
    )
}
