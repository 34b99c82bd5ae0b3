"""A life with a queue in SQLite, to be killed: `python -m tests.contracts.queue_life PATH LOG`.

Says what it did when the call has returned. Messages that 3 divides are acked at once, those with a rest of 1 after a
retry; the others are buried, and every second of these is queued again and acked.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue

COUNT, BATCH = 24, 4
AGAIN = [str(number) for number in range(2, COUNT, 6)]  # these are buried, and queued again


def main() -> None:
    queue = SqliteQueue(Path(sys.argv[1]), lease=1e6)
    out = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def print_line(*lines: str) -> None:
        os.write(out, "".join(f"{line}\n" for line in lines).encode())

    for first in range(0, COUNT, BATCH):
        ids = [str(number) for number in range(first, first + BATCH)]
        queue.publish([Message(id_, b"x" * 600) for id_ in ids])
        print_line(*(f"open {id_}" for id_ in ids))
    with queue.consume(prefetch=3) as consumer:
        while delivery := consumer.receive(timeout=0):
            rest = int(delivery.id) % 3
            if rest == 1 and delivery.attempts < 2:
                delivery.retry("once more")
            elif rest == 2:
                delivery.bury("no good")
                print_line(f"buried {delivery.id}")
            else:
                delivery.ack()
                print_line(f"absent {delivery.id}")
        queue.requeue(AGAIN)
        print_line(*(f"open {id_}" for id_ in AGAIN))
        while delivery := consumer.receive(timeout=0):
            delivery.ack()
            print_line(f"absent {delivery.id}")
    queue.close()
    os.close(out)


if __name__ == "__main__":
    main()
