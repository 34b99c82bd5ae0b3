"""A batcher that publishes to a queue of its own at a broker: a window for each line of input, until the input ends."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from webmill.commoncrawl.selection import Selection
from webmill.index.zipnum.shard_locations import ShardLocations
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Message
from webmill.infra.queue.rabbitmq import RabbitQueue
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.dispatch import blocks as dispatch_blocks
from webmill.pipeline.dispatch.batcher import BatcherContext, BatcherOptions, IndexSource, dispatch
from webmill.pipeline.dispatch.metrics import ALL


class Telling(RabbitQueue):
    def publish(self, messages: Iterable[Message]) -> int:
        sys.stdin.readline()
        count = super().publish(messages)
        print(count, flush=True)
        return count


def main(url: str, name: str, cluster: str, root: str) -> None:
    dispatch_blocks.BLOCKS_AT_ONCE = 2
    storage = LocalStorage(Path(cluster).parent)
    queue = Telling(url, name=name)
    dispatch(
        IndexSource("test", storage, "cluster.idx", ShardLocations(storage, "cluster.idx", elsewhere={})),
        Selection(statuses=("200",)),
        queue,
        root=Path(root),
        executor=InlineExecutor(),
        options=BatcherOptions(batch_size=4),
        around=BatcherContext(Metrics(ALL)),
    )
    queue.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
