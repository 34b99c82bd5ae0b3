"""A process that publishes or collects, to be killed, paused and set against others. It prints what it has done."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from webmill.errors import Conflict, Unavailable
from webmill.infra.storage.base import Condition, Data, Stat, chunks_of, open_data
from webmill.infra.storage.local import LocalStorage
from webmill.publish.gc import collect_garbage
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.types import PublishedItem

OLD = {"a": "1", "b": "2", "c": "3"}
LIVE = {"a": "1", "b": "other", "c": "other"}
NEW = {"a": "1", "b": "2", "c": "new", "d": "4"}
OPTIONS = PublishOptions(inline=2, force=True, facets=("first",))


class InPlace(LocalStorage):
    """Careless: what it writes can be found half, or in place of what was there."""

    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_data(data) as source, path.open("wb", buffering=0) as file:
            for chunk in chunks_of(source):
                file.write(chunk)
        return self.stat(key)


def publish(storage: LocalStorage, texts: dict[str, str]) -> None:
    with Publication.begin(storage, options=OPTIONS) as publication:
        for id_, text in texts.items():
            publication.add(PublishedItem(id_, "source", publication.put({"text": text}), facets={"first": id_}))
        print_line("put")
        while True:
            try:
                print_line(f"published {publication.commit().version.version}")
            except Conflict:
                continue
            return


def publish_again_and_again(storage: LocalStorage, name: str, count: int) -> None:
    for number in range(count):
        publish(storage, {"a": "1", name: f"{name} {number}", f"{name}{number % 3}": "comes and goes"})


def collect_until(storage: LocalStorage, stop: Path) -> None:
    while not stop.exists():
        try:
            gc(storage, grace=timedelta(hours=1))
        except (Conflict, Unavailable) as error:
            print_line(f"not collected: {error}")


def gc(storage: LocalStorage, *, grace: timedelta = timedelta(0)) -> None:
    report = collect_garbage(storage, keep=1, grace=grace, now=datetime.now(UTC))
    print_line(f"collected {report.trashed} {report.purged} {report.files} {len(report.waiting_for)}")


def print_line(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    command, root, *rest = sys.argv[1:]
    storage = LocalStorage(Path(root))
    match command:
        case "publish":
            publish(storage, {"old": OLD, "live": LIVE, "new": NEW}[rest[0]])
        case "publish-in-place":
            publish(InPlace(Path(root)), NEW)
        case "gc":
            gc(storage)
        case "publish-on":
            publish_again_and_again(storage, rest[0], int(rest[1]))
        case "gc-on":
            collect_until(storage, Path(rest[0]))
        case "wait":
            with Publication.begin(storage, options=OPTIONS) as publication:
                items = [PublishedItem(id_, "source", publication.put({"text": text})) for id_, text in NEW.items()]
                print_line("put")
                sys.stdin.readline()
                for item in items:
                    publication.add(item)
                print_line(f"published {publication.commit().version.version}")


if __name__ == "__main__":
    main()
