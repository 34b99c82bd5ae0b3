"""Watch notice boards: publish what they hold, publish it again when they have changed, and say what is new.

    python examples/notice_board/what_changed.py notices/

The boards are those of the test web, which is started here and changes between the two runs. For boards of your own,
write their addresses into board_list.json and let this go on for ever:

    webmill publish run notices/ --board-list board_list.json --contact you@example.org --every 10m

The first board needs no more than its address, as its system is recognised; the second names its system; the others are
told apart by selectors.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from webmill.testing import TestWeb

BOARD_LIST = Path(__file__).with_name("board_list.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path, help="where versions are published to: a new folder")
    collection = parser.parse_args().collection
    with TestWeb(hosts=0) as web:
        publish(collection, web)
        web.advance()
        publish(collection, web)
    for change in webmill("publish", "diff", collection, "previous", "live"):
        before, after = (content(collection, change.get(side)) for side in ("old", "new"))
        match change["change"]:
            case "added":
                print(f"+ {change['id']}: {after['title']} ({after['date']})")
            case "changed":
                print(f"~ {change['id']}: {before['title']} -> {after['title']}")
            case "removed":
                print(f"- {change['id']}: {before['title']}")


def publish(collection: Path, web: TestWeb) -> None:
    """Only for a web on this machine: where its hosts are, that it may be asked, and without a pause."""
    hosts = [f"--resolve={host}={address}:{port}" for host, (address, port) in web.resolve.items() if "uni" in host]
    here = ["--allow-private", "--delay=0s", "--contact=you@example.org", *hosts]
    (run,) = webmill("publish", "run", collection, "--board-list", BOARD_LIST, *here)
    print(f"version {run['version']}: {run['counts']['items']} notices of {run['planned']} boards")


def content(collection: Path, hash_: str | None) -> Any:
    """A notice is a file that has its hash as its name, and never changes."""
    return json.loads((collection / "blobs" / "sha256" / f"{hash_}.json").read_text()) if hash_ else None


def webmill(*command: str | Path) -> list[Any]:
    """As you would type it; what it says in JSON."""
    line = [sys.executable, "-m", "webmill", "-q", *map(str, command), "--json"]
    done = subprocess.run(line, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    main()
