"""Which executor an address names: pool · inline · ray:local · ray:auto · ray://HOST:PORT

To add one: an `OpenExecutor`, and its line in `EXECUTORS`; or, from another package, an entry point of the
group `webmill.executor`.
"""

from __future__ import annotations

from typing import Protocol

from webmill.infra.executor.base import Executor
from webmill.infra.registry import Registry


class OpenExecutor(Protocol):
    def __call__(self, url: str, *, workers: int | None) -> Executor: ...


EXECUTORS = Registry[OpenExecutor](
    "executor",
    {
        "pool": "webmill.infra.executor.pool:open_pool",
        "inline": "webmill.infra.executor.inline:open_inline",
        "ray": "webmill.infra.executor.ray:RayExecutor",
    },
    group="webmill.executor",
    forms="pool, inline, ray:local, ray:auto or ray://HOST:PORT",
)


def open_executor(url: str, *, workers: int | None = None) -> Executor:
    """Open an executor for `workers` tasks at once; None or 0: as many as there are cores."""
    return EXECUTORS.find(url.partition(":")[0])(url, workers=workers or None)
