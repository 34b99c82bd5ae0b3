"""All commands on a collection, for `test_read_only.py`: `python -m tests.trust.read_only ROOT OUT [reading|mounted]`.

`mounted` mounts ROOT read-only first, which must happen in a mount namespace of its own: `unshare --mount`. Prints what
each command has said, as JSON.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.faults.bit_rot import NAME
from tests.serve.asgi_client import asgi_client
from tests.serve.conftest import site_of
from tests.trust.commands import COMMANDS, DIR
from tests.unit.cli.command import webmill
from webmill.serve.app import application

INDEX = f"{DIR}/cc-index/collections/{NAME}/indexes"
READING = {
    "alerts list": (DIR, "--json"),
    "changes": (DIR, "--json"),
    "curate plan": (DIR, "--json"),
    "cdxj verify": (INDEX,),
    "cdxj query": ("*.example", "--index", INDEX),
    "cdxj flatten": (INDEX,),
    "dead list": (DIR, "--json"),
    "doctor": (DIR, "--read-data", "--json"),
    "export wacz": (DIR, "{out}/{mode}.wacz"),
    "frontier parked": (DIR, "--json"),
    "frontier stats": (DIR, "--json"),
    "frontier why": (DIR, "http://a.example/", "--json"),
    "log": (DIR, "--json"),
    "problems": (DIR, "--json"),
    "publish diff": (DIR, "1", "2", "--json"),
    "publish list": (DIR, "--json"),
    "publish show": (DIR, "--items", "--json"),
    "publish verify": (DIR,),
    "report": (DIR, "hosts", "--json"),
    "search check": (DIR, "--dry-run", "--json"),
    "search find": (DIR, "mill", "--json"),
    "status": (DIR, "--json"),
}
PAGES = ("/", "/latest.json", "/search?q=mill", "/problems", "/crawl", "/tasks", "/api/problems")
UNSTABLE = re.compile(r'^{"root":"[^"]*","time":[0-9.]+|"(oldest|seconds|next_due|age|now|free)":[-0-9.e]+')  # of now


def say(name: str, arguments: tuple[str, ...], fill: dict[str, str]) -> tuple[int, str, str]:
    ended = webmill("-q", *name.split(), *(one.format(**fill) for one in arguments))
    return ended.code, UNSTABLE.sub("", ended.out.decode()), ended.err


def read_pages(root: Path) -> list[tuple[str, int, bool]]:
    """Return the status of pages, and whether there is something in them: times are, too."""
    with asgi_client(application(site_of(root))) as ask:
        return [(path, reply.status, bool(reply.body)) for path in PAGES for reply in [ask(path)]]


def main(root: Path, out: Path, mode: str) -> None:
    if mode == "mounted":
        subprocess.run(["mount", "--bind", root, root], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", root], check=True)
    fill = {"dir": str(root), "out": str(out), "mode": mode}
    said = {f"read {name}": say(name, arguments, fill) for name, arguments in READING.items()}
    if mode == "mounted":
        for name, use in COMMANDS.items():
            if use.arguments and name != "serve" and name not in READING and not name.startswith("dataset"):
                arguments = tuple(one.replace("{dir}/extra.warc", "{out}/extra.warc.gz") for one in use.arguments)
                said[f"write {name}"] = say(name, arguments, fill)
    print(json.dumps({"said": said, "pages": read_pages(root)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
