"""Messages that stay in a shard's inbox while a copy of the crawl is made: see `copying` for why."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from webmill.crawl.scheduler.inbox import InboxMessage, ShardInbox

COPY_FOLDER, HOLD_FILE = "backup", "hold"
HOLD_SECONDS = 180.0  # seconds for which messages are held after the last sign of life


class HeldInbox:
    """A shard's inbox that gives no messages while the crawl is being copied and this shard's part is done."""

    def __init__(self, inbox: ShardInbox, file: Path) -> None:
        self._inbox = inbox
        backup = file.parent / COPY_FOLDER
        self._copy, self._hold = backup / f"shard-{file.stem.removeprefix('mail-')}", backup / HOLD_FILE

    def publish(self, bodies: Sequence[bytes]) -> None:
        self._inbox.publish(bodies)

    def read(self, count: int) -> list[InboxMessage]:
        return [] if self._is_held() else self._inbox.read(count)

    def delete(self, messages: Sequence[InboxMessage]) -> None:
        self._inbox.delete(messages)

    def is_empty(self) -> bool:
        return self._inbox.is_empty()

    def close(self) -> None:
        self._inbox.close()

    def _is_held(self) -> bool:
        try:
            return self._copy.exists() and time.time() - self._hold.stat().st_mtime < HOLD_SECONDS
        except OSError:
            return False


class HeldInboxOpener:
    """Opens inboxes as held ones. It travels to the processes of a crawl."""

    def __init__(self, open_inbox: Callable[[Path], ShardInbox]) -> None:
        self._open = open_inbox

    def __call__(self, file: Path) -> ShardInbox:
        return HeldInbox(self._open(file), file)
