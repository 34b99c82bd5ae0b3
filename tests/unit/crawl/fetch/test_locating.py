"""From a URL to an address: every way to write a host (N04), names that cannot be (N17, N18), the cache before DNS."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Sequence

import pytest

from tests.unit.crawl.fetch.fetching import PATIENCE, failed, fetching, get
from webmill.crawl.fetch import FAILURES, AddressRules, DnsLimits, DnsResolver, FetchFailure, HttpFetcher, SocketAddress

ALL_OF_127 = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.1 is the only one of 127/8")
LOOPBACK = [
    "127.0.0.1", "127.1", "0177.0.0.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "127.0.0.1.",
    "①②⑦.⓪.⓪.①", "127。0。0。1", "%31%32%37.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[0:0:0:0:0:0:0:1]",
    "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "0", "0.0.0.0", "user:password@127.0.0.1", "8.8.8.8@127.0.0.1",
    "127.0.0.1\\@8.8.8.8", "127.0.0.1#@8.8.8.8", "127.0.0.1?@8.8.8.8",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_is_refused_however_it_is_written(host: str) -> None:
    assert _locate(f"http://{host}/").reason == "blocked_address"


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1%25lo]/", "http://[::1%lo]/", "http://[fe80::1%25eth0]/", "http://256.1.1.1/", "http://1.2.3.4.5/",
        "http://0x100000000/", "http://a b/", "http://a%00b/", "http://a<b/", "http:///", "http://",
        "http://\u200d.example/", "no url", "",
    ],
)  # fmt: skip
def test_what_is_no_url_is_refused(url: str) -> None:
    assert _locate(url).reason in ("bad_url", "bad_name")


@pytest.mark.parametrize(
    "url",
    ["file:///etc/hostname", "ftp://a.example/", "gopher://a.example/", "data:text/html,x", "javascript:alert(1)"],
)
def test_only_http_and_https_are_fetched(url: str) -> None:
    assert _locate(url).reason == "scheme"


@pytest.mark.parametrize(
    "host",
    [
        "a" * 64 + ".example", ".".join(["abcdefg"] * 32), "a..example", ".example", "a.example..", "-" * 64,
        "a!b.example", "a(b).example", "a'b.example", "a;b.example",
    ],
)  # fmt: skip
def test_a_name_that_dns_cannot_hold_is_never_looked_up(host: str) -> None:
    asked: list[str] = []
    outcome = _locate(f"http://{host}/", DnsResolver(lookup=_record(asked, ["8.8.8.8"])))
    assert outcome.reason in ("bad_name", "bad_url")
    assert not asked


def test_a_label_of_fifty_thousand_letters_is_refused_by_its_length() -> None:
    assert _locate("http://" + "ü" * 50_000 + ".example/").reason == "url_too_long"


def test_a_long_name_that_dns_can_hold_is_looked_up() -> None:
    asked: list[str] = []
    host = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    assert len(host) == 253
    assert asyncio.run(_locate_all([f"http://{host}/"], DnsResolver(lookup=_record(asked, ["8.8.8.8"])))) == [
        SocketAddress("8.8.8.8", 80)
    ]
    assert asked == [host]


def test_an_international_name_is_looked_up_in_its_ascii_form() -> None:
    asked: list[str] = []
    asyncio.run(_locate_all(["http://mühle.example/"], DnsResolver(lookup=_record(asked, ["8.8.8.8"]))))
    assert asked == ["xn--mhle-0ra.example"]


def test_a_fixed_name_wins_and_a_port_of_the_url_wins_over_its_port() -> None:
    resolver = DnsResolver(fixed={"a.example": ("8.8.8.8", 8080)}, lookup=_forbidden)
    rules = AddressRules(allow_private=True)
    urls = ["http://a.example/", "https://a.example/", "http://A.example./", "http://a.example:81/"]
    found = asyncio.run(_locate_all(urls, resolver, rules))
    assert found == [SocketAddress("8.8.8.8", 8080)] * 3 + [SocketAddress("8.8.8.8", 81)]


def test_an_address_needs_no_lookup_of_its_own() -> None:
    asked: list[str] = []
    resolver = DnsResolver(lookup=_record(asked, ["192.0.0.170"]))
    found = asyncio.run(_locate_all(["http://8.8.8.8/", "https://[2606:4700::1]/"], resolver))
    assert found == [SocketAddress("8.8.8.8", 80), SocketAddress("2606:4700::1", 443)]
    assert asked == ["ipv4only.arpa"]  # whether the network translates IPv6 addresses


@pytest.mark.parametrize(
    ("known", "local", "public"),
    [  # RFC 6052, 2.4, with other addresses behind the prefix
        ("2a00:1450:c000:aa::", "2a00:1450:a00:1::", "2a00:1450:808:808::"),
        ("2a00:1450:1c0:0:aa::", "2a00:1450:10a:0:1::", "2a00:1450:108:808:8::"),
        ("2a00:1450:122:c000:0:aa00::", "2a00:1450:122:a00:0:100::", "2a00:1450:122:808:8:800::"),
        ("2a00:1450:122:3c0:0:aa::", "2a00:1450:122:30a:0:1::", "2a00:1450:122:308:8:808::"),
        ("2a00:1450:122:344:c0:0:aa00::", "2a00:1450:122:344:a:0:100::", "2a00:1450:122:344:8:808:800::"),
        ("2a00:1450:122:344::192.0.0.170", "2a00:1450:122:344::10.0.0.1", "2a00:1450:122:344::8.8.8.8"),
    ],
)
def test_an_address_that_the_network_translates_to_a_local_one_is_refused(known: str, local: str, public: str) -> None:
    names = {"ipv4only.arpa": [known], "local.example": [local], "public.example": [public]}
    resolver = DnsResolver(lookup=lambda host: names[host])
    urls = ["http://local.example/", f"http://[{local}]/", "http://public.example/"]
    by_name, literal, outside = asyncio.run(_locate_all(urls, resolver))
    assert isinstance(by_name, FetchFailure)
    assert isinstance(literal, FetchFailure)
    assert {by_name.reason, literal.reason} == {"blocked_address"}
    assert isinstance(outside, SocketAddress)


def test_an_answer_is_kept_for_its_time_and_a_failure_for_a_shorter_one() -> None:
    asked: list[str] = []
    now = [0.0]

    def lookup(host: str) -> list[str]:
        asked.append(host)
        if host == "gone.example":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return ["8.8.8.8"]

    resolver = DnsResolver(lookup=lookup, clock=lambda: now[0], limits=DnsLimits(keep=300, keep_failure=30))

    async def run() -> None:
        async with fetching(resolver=resolver, address_rules=AddressRules()) as fetcher:
            for moment, expected in ((0, 2), (29, 2), (30, 3), (299, 4), (300, 5)):
                now[0] = moment
                assert await fetcher.locate("http://a.example/") == SocketAddress("8.8.8.8", 80)
                assert failed(await get(fetcher, "http://gone.example/")).reason == "dns_notfound"
                assert len(asked) == expected, moment

    asyncio.run(run())


def test_the_cache_forgets_the_oldest_name() -> None:
    asked: list[str] = []
    urls = [f"http://{name}.example/" for name in "abcda"]
    asyncio.run(_locate_all(urls, DnsResolver(lookup=_record(asked, ["8.8.8.8"]), limits=DnsLimits(entries=3))))
    assert asked == ["a.example", "b.example", "c.example", "d.example", "a.example"]


def test_all_who_ask_at_once_wait_for_one_lookup() -> None:
    asked: list[str] = []
    resolver = DnsResolver(lookup=_record(asked, ["8.8.8.8"]))

    async def run() -> None:
        async with fetching(resolver=resolver, address_rules=AddressRules()) as fetcher:
            found = await asyncio.gather(*(fetcher.locate("http://a.example/") for _ in range(100)))
            assert set(found) == {SocketAddress("8.8.8.8", 80)}

    asyncio.run(run())
    assert asked == ["a.example"]


def test_a_silent_name_server_costs_its_deadline_and_no_thread_more_than_there_are() -> None:
    over, under_way = threading.Event(), []

    def lookup(host: str) -> list[str]:
        under_way.append(host)
        over.wait(PATIENCE)
        return ["8.8.8.8"]

    async def run() -> None:
        async with fetching(
            resolver=DnsResolver(lookup=lookup, limits=DnsLimits(deadline=0.05, threads=2, thread_wait=0.05)),
            address_rules=AddressRules(),
        ) as fetcher:
            found = await asyncio.gather(*(get(fetcher, f"http://{n}.example/") for n in range(20)))
            assert {failed(each).reason for each in found} == {"dns_timeout"}
            assert failed(await get(fetcher, "http://0.example/")).reason == "dns_timeout"  # kept, not asked again

    try:
        asyncio.run(run())
        assert len(under_way) == 2
    finally:
        over.set()


def test_one_who_gives_up_does_not_disturb_the_others() -> None:
    over, started = threading.Event(), threading.Event()

    def lookup(host: str) -> list[str]:
        started.set()
        over.wait(PATIENCE)
        return ["8.8.8.8"]

    async def run() -> None:
        async with fetching(
            resolver=DnsResolver(lookup=lookup, limits=DnsLimits(deadline=PATIENCE)), address_rules=AddressRules()
        ) as fetcher:
            first, second = (asyncio.create_task(fetcher.locate("http://a.example/")) for _ in range(2))
            await asyncio.to_thread(started.wait, PATIENCE)
            first.cancel()
            await asyncio.wait((first,))
            over.set()
            assert await second == SocketAddress("8.8.8.8", 80)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("code", "reason"),
    [(socket.EAI_NONAME, "dns_notfound"), (socket.EAI_AGAIN, "dns_failed"), (socket.EAI_FAIL, "dns_failed")],
    ids=["noname", "again", "fail"],
)
def test_an_error_of_the_resolver_has_a_name(code: int, reason: str) -> None:
    def lookup(host: str) -> list[str]:
        raise socket.gaierror(code, "as it is")

    assert _locate("http://a.example/", DnsResolver(lookup=lookup)).reason == reason


def test_a_name_without_addresses_is_not_found() -> None:
    assert _locate("http://a.example/", DnsResolver(lookup=_record([], []))).reason == "dns_notfound"


def test_a_name_with_a_private_address_is_refused_with_that_address() -> None:
    outcome = _locate("http://a.example/", DnsResolver(lookup=_record([], ["10.0.0.8", "8.8.8.8"])))
    assert (outcome.reason, outcome.ip, outcome.sent) == ("blocked_address", "10.0.0.8", False)


@ALL_OF_127
def test_of_ten_thousand_addresses_a_few_are_kept() -> None:
    many = [f"127.1.{n // 250}.{n % 250}" for n in range(10_000)]

    async def run() -> None:
        async with fetching(resolver=DnsResolver(lookup=_record([], many))) as fetcher:
            tried = [failed(await get(fetcher, "http://a.example:1/")).ip for _ in range(20)]
        assert tried == [*many[:16], *many[:4]]

    asyncio.run(run())


def _record(asked: list[str], addresses: Sequence[str]):  # type: ignore[no-untyped-def]
    def lookup(host: str) -> Sequence[str]:
        asked.append(host)
        return addresses

    return lookup


def _forbidden(host: str) -> list[str]:
    raise AssertionError(f"{host} was looked up")


def _locate(url: str, resolver: DnsResolver | None = None) -> FetchFailure:
    (found,) = asyncio.run(_locate_all([url], resolver or DnsResolver(lookup=_forbidden)))
    assert isinstance(found, FetchFailure), found
    assert found.reason in FAILURES
    assert not found.sent
    return found


async def _locate_all(
    urls: Sequence[str], resolver: DnsResolver, rules: AddressRules | None = None
) -> list[SocketAddress | FetchFailure]:
    fetcher = HttpFetcher(user_agent="x", resolver=resolver, address_rules=rules or AddressRules())
    try:
        return [await fetcher.locate(url) for url in urls]
    finally:
        await fetcher.close()
