"""A crawl in a network where private addresses exist, of servers that send it there.

Run as root by `unshare --net --mount python -m tests.pipeline.crawl_namespace ROOT`; prints what happened as JSON.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

from tests.pipeline.crawling import Setup, crawl_here, visits
from tests.unit.crawl.fetch.fetching import answer, read_request
from tests.unit.crawl.fetch.namespace import PRIVATE, PUBLIC, Servers, make_network
from tests.unit.crawl.fetch.stub_dns import NXDOMAIN, StubDns
from webmill.crawl.options import CrawlLimits, CrawlRules

METADATA = "http://169.254.169.254/latest/meta-data/"
PAGES = {  # of www.public.test
    "/to-private": "http://10.0.0.8/",
    "/to-metadata": METADATA,
    "/to-loopback": "http://127.1/",
    "/to-mapped": "http://[::ffff:10.0.0.8]/",
    "/to-name": "http://inside.private.test/",
    "/to-page": "/page",
}
ROBOTS = {"10": "http://10.0.0.8/robots.txt", "metadata": METADATA, "name": "http://inside.private.test/robots.txt"}
NAMES = {"www.public.test": PUBLIC, "inside.private.test": PRIVATE[1]}
NAMES |= {f"{name}.rules.test": PUBLIC for name in ROBOTS}


class Web(Servers):
    def _attend(self, connection: socket.socket) -> None:
        with connection:
            while request := read_request(connection):
                connection.sendall(reply(request.decode()))


def reply(request: str) -> bytes:
    path = request.split(" ")[1]
    host = next(line.partition(":")[2].strip() for line in request.splitlines() if line.lower().startswith("host:"))
    target = PAGES.get(path) if host == "www.public.test" else None
    if path == "/robots.txt" and host.endswith(".rules.test"):
        target = ROBOTS[host.partition(".")[0]]
    if target:
        return f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()
    return answer(b"User-agent: *\nAllow: /\n" if path == "/robots.txt" else b"<p>a page")


def names(name: str, turn: int) -> Any:
    return [NAMES[name]] if name in NAMES else NXDOMAIN


def main(root: Path) -> None:
    make_network()
    servers, _ = Web(), StubDns(names)
    seeds = [f"http://www.public.test{path}" for path in PAGES] + [f"http://{name}.rules.test/" for name in ROBOTS]
    limits, rules = CrawlLimits(attempts=1, retry_wait=0.1), CrawlRules(scope="any", sitemaps=False)
    report = crawl_here(root, Setup(seeds=tuple(seeds), allow_private=False, limits=limits, rules=rules))
    known = {url: [visit.status, visit.error.partition(" (")[0]] for url, visit in visits(root).items()}
    print(json.dumps({"end": report.end, "visits": known, "connected": servers.connected}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
