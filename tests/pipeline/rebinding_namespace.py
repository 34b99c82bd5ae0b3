"""A crawl whose names are public when they are asked for first, and private from then on: DNS rebinding, with TTL 0.

Run as root by `unshare --net --mount python -m tests.pipeline.rebinding_namespace ROOT`; prints what happened as JSON.
The second run is a new process with an empty cache: it asks for every name again, for pages, redirects and resources.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

from tests.pipeline.crawling import Setup, crawl_here, visits
from tests.unit.crawl.fetch.fetching import read_request
from tests.unit.crawl.fetch.namespace import PRIVATE, PUBLIC, PUBLIC_V6, Servers, make_network
from tests.unit.crawl.fetch.stub_dns import NXDOMAIN, StubDns
from webmill.crawl.options import CrawlLimits, CrawlRules

NAT64, OWN_NAT64, SIX_TO_FOUR = "64:ff9b::a00:8", "2001:67c:27e4:64::a00:8", "2002:a00:8::1"  # of 10.0.0.8
PREFIX = "2001:67c:27e4:64::c000:aa"  # what the network says of its own NAT64 (RFC 7050)
WRAPPED = (NAT64, OWN_NAT64, SIX_TO_FOUR)
THERE = (*PRIVATE, *WRAPPED)  # where each name leads when it is asked for again
HOSTS = {f"www.r{number}.test": ip for number, ip in enumerate(THERE)}
IMAGES = {f"images.i{number}.test": ip for number, ip in enumerate(THERE)}
STABLE = "www.stable.test"  # stays public, and sends the crawler to the others


class Rebinding(Servers):
    def _attend(self, connection: socket.socket) -> None:
        with connection:
            while request := read_request(connection):
                connection.sendall(reply(request.decode()))


def reply(request: str) -> bytes:
    path = request.split(" ")[1]
    if path == "/robots.txt":
        return respond("200 OK", "text/plain", b"User-agent: *\nAllow: /\n")
    if path.startswith("/to/"):
        return respond(f"302 Found\r\nLocation: http://{path.removeprefix('/to/')}/by-redirect", "text/plain")
    if path.endswith(".png"):
        return respond("200 OK", "image/png", b"\x89PNG")
    images = "".join(f'<img src="http://{host}/{path.strip("/") or "first"}.png">' for host in IMAGES)
    return respond("200 OK", "text/html", f"<p>a page{images}".encode())


def respond(status: str, kind: str, body: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def names(name: str, turn: int) -> Any:
    if name == "ipv4only.arpa":
        return [PREFIX, "192.0.0.170"]
    if name == STABLE:
        return [PUBLIC]
    there = HOSTS.get(name) or IMAGES.get(name)
    if there is None:
        return NXDOMAIN
    if turn > 1:
        return [there]
    return [PUBLIC_V6 if ":" in there else PUBLIC]


def main(root: Path) -> None:
    make_network(*WRAPPED)
    servers, dns = Rebinding(*WRAPPED), StubDns(names, ttl=0)
    limits = CrawlLimits(attempts=1, retry_wait=0.1)
    rules = CrawlRules(scope="any", sitemaps=False, page_resources=True)

    def crawl(*seeds: str) -> dict[str, list[Any]]:
        crawl_here(root, Setup(seeds=seeds, allow_private=False, limits=limits, rules=rules))
        return {url: [visit.status, visit.error.partition(" (")[0]] for url, visit in visits(root).items()}

    first = crawl(f"http://{STABLE}/", *(f"http://{host}/" for host in HOSTS))
    asked = dict(dns.asked)
    later = [f"http://{host}/later" for host in (STABLE, *HOSTS)]
    second = crawl(*later, *(f"http://{STABLE}/to/{host}" for host in HOSTS))
    news = {url: said for url, said in second.items() if url not in first}
    print(json.dumps({"first": first, "news": news, "asked": [asked, dns.asked], "connected": servers.connected}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
