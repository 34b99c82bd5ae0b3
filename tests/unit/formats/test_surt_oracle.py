"""Our keys are those of the `surt` package, which pywb calls: on generated URLs, and on real ones at hand."""

from __future__ import annotations

import gzip
import json
import random
import re
import socket
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from webmill.formats.url.surt import surt

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it has invalid escapes in its source
    import surt as archive

SESSION = "0123456789abcdef0123456789ABCDEF"


def words(text: str, *others: str) -> list[str]:
    return [*text.split(), *others]


SCHEMES = words(
    """http:// http:// https:// https:// HTTP:// // ftp:// http:/ http: http:/// ws:// dns: dns:// urn: mailto:
    warcinfo: screenshot:http:// https://http:// file:///""",
    *("", " http://"),
)
HOSTS = words(
    """example.com www.example.com WWW2.Example.co.uk a.b.c.example.org localhost xn--bcher-kva.example a_b.com -a.com
    bücher.example straße.de 例え.テスト example。com ä..example ex%61mple.com ex%C3%A4mple.com e%ffx.com example.com.
    127.0.0.1 0177.0.0.1 127.1 2130706433 1.2.3.256 1.2.3.4.5 0x7f.1 1.2.65535 08.1 www.127.1 [::1] [2001:DB8::1]
    [::ffff:1.2.3.4] .. www. .a.b""",
    "a b.com",
)
USERS = words("u@ u:p@ a@b@ :@", *[""] * 12)
PORTS = words(":80 :443 :8080 : :0 :0081 :: :65535", *[""] * 12)
SEGMENTS = words(
    f"""a B index.html .. . %7Euser a%20b %2541 é 日本 x;y=1 (a) a%2fb a,b 100% (S({"a1" * 12})) ({"b2" * 12}) page.aspx
    %00 % %e9 A+B ~!@$&'()* "<>\\^`{{|}}""",
    *("", "a b", "a\tb", "\x7f"),
)
NAMES = words("a b A id q a-b sid jsessionid PHPSESSID utm_source %61 é aspsessionidabcdefgh cfid cftoken x[]", "")
VALUES = words(f"1 2 {SESSION} a%20b a+b %26 %3D é http://x.com/?y=1 {'a' * 24} / ? %2", "")
TAILS = ["#", "#top", "#a?b", " ", "\n", "#a\nb", *[""] * 8]
BITS = words(
    f"""% %2 %25 %41 %2e %2f %3f %23 . .. / // /../ ? & = # @ : :80 [ ] www. www1. é ß 。 😀 %ff %c3%a4 a B 0 1.2 \\ "
    {{ , ) - ; http https: ftp: sid={SESSION} cfid=1&cftoken=2""",
    *"\t\n\r \x0b\x00\x7f\xa0\u2028\ud800",
)


@pytest.fixture(autouse=True)
def no_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package asks the resolver about numeric hosts. Here it gets what libc knows by itself, or an error."""

    def resolve(host: bytes) -> tuple[str, list[str], list[str]]:
        try:
            return host.decode(), [], [socket.inet_ntoa(socket.inet_aton(host.decode()))]
        except OSError as error:
            raise socket.gaierror(host) from error

    monkeypatch.setattr(socket, "gethostbyname_ex", resolve)


def generated(seed: int, count: int) -> Iterator[str]:
    dice = random.Random(seed)
    for _ in range(count):
        url = one_url(dice)
        yield mutated(url, dice) if dice.random() < 0.4 else url


def one_url(dice: random.Random) -> str:
    pick = dice.choice
    path = "".join("/" + pick(SEGMENTS) for _ in range(dice.randrange(5)))
    query = "&".join(f"{pick(NAMES)}{pick(['=', '=', ''])}{pick(VALUES)}" for _ in range(dice.randrange(4)))
    return pick(SCHEMES) + pick(USERS) + pick(HOSTS) + pick(PORTS) + path + ("?" + query if query else "") + pick(TAILS)


def mutated(url: str, dice: random.Random) -> str:
    for _ in range(dice.randint(1, 3)):
        at = dice.randint(0, len(url))
        url = url[:at] + dice.choice(BITS) + url[at + dice.choice([0, 0, 0, 1, 2]) :]
    return url


def differences(urls: Iterable[str]) -> tuple[int, int, list[tuple[str, str, str]]]:
    """How many were compared, how many the package could not answer, and (url, its key, our key) where they differ."""
    compared = unanswered = 0
    found = []
    for url in urls:
        ours = surt(url)
        assert ours.isascii(), url
        assert ours.isprintable(), url
        assert " " not in ours, url
        try:
            theirs = archive.surt(url)
        except (ValueError, AttributeError):  # a bad port, a lone surrogate; an empty URL
            unanswered += 1
            continue
        compared += 1
        if ours != theirs and not url.startswith("filedesc"):  # see the table in docs/reference/surt.md
            found.append((url, theirs, ours))
    return compared, unanswered, found


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 15_000), *(pytest.param(seed, 30_000, marks=pytest.mark.soak) for seed in range(4))]
)
def test_generated_urls_have_the_archives_keys(seed: int, count: int) -> None:
    compared, unanswered, found = differences(generated(seed, count))
    assert not found, found[:5]
    assert compared > count * 0.8
    assert unanswered > 25  # the generator reaches those too


def test_real_urls_have_the_archives_keys(shared_data: Path) -> None:
    urls = real_urls(shared_data)
    compared, _, found = differences(urls)
    assert not found, found[:5]
    assert compared > 50_000


def test_the_url_standards_test_inputs_have_the_archives_keys(shared_data: Path) -> None:
    cases = json.loads((shared_data / "urls" / "urltestdata.json").read_text())
    compared, _, found = differences(case["input"] for case in cases if isinstance(case, dict))
    assert not found, found[:5]
    assert compared > 400


def real_urls(shared_data: Path) -> set[str]:
    """Targets of all sample records, and every second link in the pages' WAT."""
    targets = {url for path in sorted((shared_data / "warc").rglob("*.warc*")) for url in targets_in(path)}
    links: set[str] = set()
    for wat in (shared_data / "triple").glob("*.wat.gz"):
        links.update(
            re.findall(r'"url":"(https?://[^"\\]+)"', gzip.decompress(wat.read_bytes()).decode("utf-8", "replace"))
        )
    return targets | set(sorted(links)[::2])


def targets_in(path: Path) -> list[str]:
    data = path.read_bytes()
    try:
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError):  # damaged on purpose
        return []
    return [match.decode("utf-8", "replace") for match in re.findall(rb"WARC-Target-URI: ([^\r\n]+)", data)]
