"""Seeds and exclusions from arguments and files."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.crawl.seeds import RejectedSeed, parse_domain, parse_seed, read_domains, read_seeds
from webmill.errors import BadInput, Misconfigured
from webmill.formats.url.normalise import normalise


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("example.com", "https://example.com/"),
        ("example.com/path", "https://example.com/path"),
        ("example.com/path/", "https://example.com/path/"),
        ("EXAMPLE.com?q=a:b/c", "https://example.com/?q=a:b/c"),
        ("//example.com/x", "https://example.com/x"),
        ("bücher.example", "https://xn--bcher-kva.example/"),
        ("http://example.com", "http://example.com/"),
        ("HTTPS://Example.com:443/a;b#c", "https://example.com/a;b"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com/a//b//c", "http://example.com/a//b//c"),
        ("example.com:8080", "http://example.com:8080/"),
        ("example.com:443/x", "https://example.com/x"),
        ("localhost", "http://localhost/"),
        ("localhost:8000/x", "http://localhost:8000/x"),
        ("127.0.0.1", "http://127.0.0.1/"),
        ("127.0.0.1:8080/a", "http://127.0.0.1:8080/a"),
        ("[::1]:8080", "http://[::1]:8080/"),
        ("http://[::1]/", "http://[::1]/"),
        ("my_site.example.com", "https://my_site.example.com/"),
        ("example.com.", "https://example.com./"),
    ],
)
def test_a_seed_is_what_a_person_means(text: str, url: str) -> None:
    assert parse_seed(text) == url


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ftp://example.com/", "scheme"),
        ("mailto:me@example.com", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("http://", "bad_url"),
        ("https://exa mple.com/", "bad_url"),
        ("example", "bad_host"),
        ("http://example/", "bad_host"),
        ("1,example.com", "bad_host"),
        ("me@example.com", "bad_host"),
        ("http://me@example.com/", "credentials"),
        ("https://me:secret@example.com:8080/", "credentials"),
        ("two words.com", "bad_host"),
        ("http://-/", "bad_host"),
        ("example.com:99999", "bad_url"),
        ("example.com/" + "x" * 9000, "url_too_long"),
        ("\0", "bad_host"),
    ],
)
def test_what_is_no_seed_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_seed(text)
    assert refused.value.reason in (reason, "bad_url")
    assert reason == "bad_host" or refused.value.reason == reason


def test_a_file_has_one_seed_per_line_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_bytes(
        b"\xef\xbb\xbf# my sites\r\n\r\nexample.com\r\n  http://example.org/a#b  # the shop\r\n"
        b"not a seed\n\xff\xfe\nexample.net"
    )
    found = list(read_seeds(["first.example", "?"], files=[file]))
    assert found == [
        "https://first.example/",
        RejectedSeed("arguments", 2, "?", "bad_url"),
        "https://example.com/",
        "http://example.org/a",
        RejectedSeed(str(file), 5, "not a seed", "bad_host"),
        RejectedSeed(str(file), 6, "\ufffd\ufffd", found[5].reason),  # type: ignore[union-attr]
        "https://example.net/",
    ]


def test_seeds_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    def endless() -> object:
        number = 0
        while True:
            number += 1
            yield f"host{number}.example"

    assert list(islice(read_seeds(endless()), 2)) == ["https://host1.example/", "https://host2.example/"]  # type: ignore[arg-type]
    file = tmp_path / "seeds.txt"
    file.write_text("".join(f"host{number}.example\n" for number in range(10_000)))
    assert sum(isinstance(seed, str) for seed in read_seeds([], files=[file, file])) == 20_000


def test_a_line_without_end_is_one_bad_line(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_bytes(b"x" * 1_000_000 + b"\nexample.com\n")
    rejected, seed = read_seeds([], files=[file])
    assert rejected == RejectedSeed(str(file), 1, "x" * 200, "url_too_long")
    assert seed == "https://example.com/"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"nothing\.txt"):
        list(read_seeds([], files=[tmp_path / "nothing.txt"]))
    with pytest.raises(Misconfigured):
        list(read_domains(tmp_path))


def test_exclusions_are_registered_domains(tmp_path: Path) -> None:
    file = tmp_path / "not.txt"
    file.write_text(
        "# never\nexample.com\n*.example.org\n.example.net\nwww.example.co.uk\nhttps://Example.de/x\n127.0.0.1\nlocalhost\n"
        "blog.example.com\nco.uk\nword\n"
    )
    found = list(read_domains(file))
    assert found[:7] == [
        *("example.com", "example.org", "example.net", "example.co.uk", "example.de", "127.0.0.1", "localhost"),
    ]
    assert [(reject.line, reject.reason) for reject in found[7:] if isinstance(reject, RejectedSeed)] == [
        *((9, "not_a_domain"), (10, "not_a_domain"), (11, "bad_host")),
    ]


@given(st.one_of(st.text(max_size=40), st.text(alphabet="a.:/@?#[]0-9 ,_%\\*", max_size=30)))
@settings(deadline=None, max_examples=500)
def test_any_line_is_a_normalised_url_or_refused(text: str) -> None:
    for found in read_seeds([text]):
        assert isinstance(found, RejectedSeed) or normalise(found) == found
    with suppress(BadInput):
        assert parse_domain(text) == parse_domain(text).lower()
