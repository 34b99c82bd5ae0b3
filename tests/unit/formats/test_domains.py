from __future__ import annotations

import socket

import pytest
import tldextract

from webmill.formats.url.domains import private_domain, registered_domain


@pytest.mark.parametrize(
    ("host", "registered", "private"),
    [
        ("www.example.com", "example.com", "example.com"),
        ("example.com", "example.com", "example.com"),
        ("WWW.Example.CO.UK.", "example.co.uk", "example.co.uk"),
        ("a.b.github.io", "github.io", "b.github.io"),
        ("github.io", "github.io", None),
        ("www.city.kawasaki.jp", "city.kawasaki.jp", "city.kawasaki.jp"),  # an exception to the rule *.kawasaki.jp
        ("a.b.c.kawasaki.jp", "b.c.kawasaki.jp", "b.c.kawasaki.jp"),
        ("www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
        ("www.食狮.公司.cn", "食狮.公司.cn", "食狮.公司.cn"),
        ("www.shop.test", "shop.test", "shop.test"),
        ("com", None, None),
        ("co.uk", None, None),
        ("localhost", None, None),
        ("127.0.0.1", None, None),
        ("[2001:db8::1]", None, None),
        ("2001:db8::1", None, None),
        ("", None, None),
        (".", None, None),
        ("a..com", None, None),
    ],
)
def test_the_domain_of_a_host(host: str, registered: str | None, private: str | None) -> None:
    assert registered_domain(host) == registered
    assert private_domain(host) == private


@pytest.mark.parametrize("private", [False, True])
def test_every_suffix_of_the_list_is_found_as_tldextract_finds_it(private: bool) -> None:
    extract = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=private)
    domain = private_domain if private else registered_domain
    for suffix in extract.tlds:
        ours = suffix.removeprefix("!").replace("*", "any")
        for host in (ours, f"one.{ours}", f"www.one.{ours}", f"www.one.{ours.encode('idna').decode()}"):
            assert domain(host) == (extract.extract_str(host).top_domain_under_public_suffix or None), host


def test_nothing_is_asked_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    registered_domain.cache_clear()
    assert registered_domain("www.example.org") == "example.org"
