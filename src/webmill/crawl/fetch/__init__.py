"""Fetch one URL from a server that may do anything, and keep exactly what went over the wire.

    fetcher = HttpFetcher(user_agent="mybot/1.0 (+https://example.org/bot)")
    address = await fetcher.locate(url)                            # SocketAddress, or FetchFailure: nothing was sent
    outcome = await fetcher.fetch(FetchRequest(url=url), address)  # FetchedResponse, or FetchFailure (see FAILURES)

Nothing is followed, retried with a delay, or remembered about a server but its open connections: no redirects, cookies,
credentials, `.netrc`, and no proxies but the one that `route` names. Fields of a session come from the caller
(`politeness/session.py`), secret ones with what is archived in their place. User and password of a URL are never sent.
What is done about each oddity ("Fetched" is a `FetchedResponse`, "Failed" a `FetchFailure` with that reason):

| oddity | answer |
|---|---|
| not http or https, not a URL, a name that DNS cannot hold | Failed `scheme`, `bad_url`, `url_too_long`, `bad_name` |
| an address that is not public, however it is written, wrapped or resolved | Failed `blocked_address`, no connect |
| a port that is not listed (80, 443) | Failed `blocked_port`, no connect |
| a name with other answers the second time | what is connected was vetted, and is again |
| no such name | Failed `dns_notfound`, also to all who ask in the next 30 s |
| a name server that fails, or is silent for 10 s | the same with `dns_failed`, `dns_timeout` |
| thousands of addresses | 16 are kept |
| an address that refuses, or is slow (0.25 s), of several | up to three more are tried, families in turns |
| none connected in 10 s | Failed `connect_*`; the next `locate` gives the next address |
| a certificate expired, self-signed, of an unknown issuer, for another host | Failed `tls_*` |
| TLS that is too old, or fails otherwise | Failed `tls_other` |
| both of these, where tls="archive" | Fetched, flaw `tls_unverified` |
| no TLS handshake in 10 s | Failed `tls_timeout` |
| silence, or drops, before a whole head | Failed `timeout` |
| the same after the head | Fetched, truncated `time` |
| 120 s in all, or under 1 KiB/s over 30 s | as the two above |
| a body over 64 MiB | Fetched up to there, truncated `length` |
| reset or end before the first byte | Failed `reset`, `no_response` |
| the same on a reused connection | asked once more, on a new one |
| reset or end inside the head | Failed `reset`, `truncated_head` |
| reset or end inside the body | Fetched, truncated `disconnect` |
| head over 64 KiB or 256 lines, over 8 interim responses | Failed `header_limit` |
| HTTP/0.9, `ICY 200 OK`, junk | Failed `no_start_line` |
| status 99999; Content-Length -1; two that differ | Failed `bad_status`; `bad_length`; `conflicting_length` |
| 101 that nobody asked for | Failed `unexpected_upgrade` |
| other oddities of a head or a framing (`formats.http` has the list) | Fetched with a flaw |
| a bad chunk | Fetched up to there, flaw `bad_chunk` |
| bombs, four codings or more, a window over 8 MiB | Fetched, raw bytes whole, `payload` cut, flaw `decode_limit` |
| broken or mislabelled content coding | Fetched, raw bytes whole, a flaw of `formats.compression.content_coding` |
| HTTP/2 that is none (`formats.http.http2`), a flood of its frames | Failed `http2_error`, `too_many_frames` |
| the same after the head | Fetched up to there, truncated `unspecified`, a flaw of that name |
| bytes after an answer, or before the next request | that connection is closed; they belong to no answer |
| a proxy that is not there, refuses us, or speaks no such protocol | Failed `proxy_failed`, not `sent` |
| a proxy that cannot connect to the server | Failed `connect_*` |
| a source address that this machine lost | Failed `source_address`, not `sent` |
| no file descriptor | idle connections are ended, and it is tried again until the deadline |
| still none | Failed `too_many_files`, not `sent` |

An idle connection waits `FetchLimits.idle`, and no longer than a `Keep-Alive: timeout=…` of its server. Where as many
wait as may, or take as much memory, the next is closed.

With a server that prefers it, HTTP/2 is spoken, one request at a time; its answers are told as HTTP/1.1 has them.
A host that failed at it is asked by HTTP/1.1 for an hour.

A connection with TLS resumes the session of an earlier one, where the server allows it (`tls_sessions.py`).

Every `FetchFailure` keeps what came (`partial`, up to 64 KiB). A connection is not used again after an answer with a
flaw; one whose certificate was not verified is, and that is a flaw of every answer that comes over it. For an hour the
same certificate of the same server is not tried strictly again.

Memory: an answer is held once, as sent, at most `FetchLimits.body` and a read; all of them together at most
`FetchLimits.memory` and one answer. Beyond that the others wait in the kernel, and their deadlines run. What `fetch`
returns is counted as long as its caller says so (`hold_memory`).

Time: an answer that comes in many small pieces is read every few milliseconds, and large ones are decoded in a thread.
"""

from webmill.crawl.fetch.address_rules import WEB_PORTS, AddressRules
from webmill.crawl.fetch.fetcher import HttpFetcher
from webmill.crawl.fetch.name_lookup import check_servers, no_lookup, system_lookup
from webmill.crawl.fetch.resolver import DnsLimits, DnsResolver
from webmill.crawl.fetch.types import (
    FAILURES,
    MAX_PARTIAL,
    FetchedResponse,
    FetchFailure,
    FetchLimits,
    FetchRequest,
    SocketAddress,
)

__all__ = [
    "FAILURES",
    "MAX_PARTIAL",
    "WEB_PORTS",
    "AddressRules",
    "DnsLimits",
    "DnsResolver",
    "FetchFailure",
    "FetchLimits",
    "FetchRequest",
    "FetchedResponse",
    "HttpFetcher",
    "SocketAddress",
    "check_servers",
    "no_lookup",
    "system_lookup",
]
