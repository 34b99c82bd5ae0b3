"""A process of readers, for test_limiter_origin.py: many threads, many reads, and no policy but the limiter's.

What fails is not thought about: the next read follows at once, whatever the server said.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from webmill.errors import WebmillError
from webmill.infra.host_schedule.adaptive_rate import LimiterPolicy
from webmill.infra.host_schedule.limiter import Limiter
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.http import HttpReadLimits, HttpStorage
from webmill.infra.storage.limited import LimitedReads
from webmill.infra.storage.retrying import RetryingReads

IMPATIENT = BackoffPolicy(attempts=4, first_wait=0.001, longest_wait=0.01, longest_retry_after=0.01)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    url: str
    state: str
    go: str  # a file; nobody asks before it is there
    rate: float
    burst: float
    policy: LimiterPolicy
    threads: int = 2
    reads: int = 15
    patience: float = 60.0


def main(task: Task) -> None:
    limiter = Limiter(Path(task.state), rate=task.rate, burst=task.burst, policy=task.policy)
    limits = HttpReadLimits(connect=30, silence=30)
    with HttpStorage(task.url, user_agent="webmill-test", limits=limits, on_redirect=limiter.spend) as http:
        reads = RetryingReads(LimitedReads(http, limiter, patience=task.patience), policy=IMPATIENT)

        def read_all(thread: int) -> None:
            for number in range(task.reads):
                try:
                    reads.read(f"{task.name}/{thread}/{number}", start=100, length=100)
                except WebmillError as error:
                    print(error, file=sys.stderr)

        print("ready", flush=True)
        while not Path(task.go).exists():
            time.sleep(0.005)
        with ThreadPoolExecutor(task.threads) as threads:
            list(threads.map(read_all, range(task.threads)))


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1].encode(), type=Task))
