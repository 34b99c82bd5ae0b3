"""What the machine says of names: resolv.conf, hosts, and servers that a person names."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.crawl.dns.system_files import (
    NameServers,
    ServerAddress,
    parse_servers,
    prefers,
    read_hosts,
    read_servers,
    version_of,
)
from webmill.errors import Misconfigured


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("9.9.9.9", ServerAddress("9.9.9.9", 53)),
        (" 127.0.0.1:5353 ", ServerAddress("127.0.0.1", 5353)),
        ("[::1]", ServerAddress("::1", 53)),
        ("[2620:fe::fe]:54", ServerAddress("2620:fe::fe", 54)),
        ("2620:fe::fe", ServerAddress("2620:fe::fe", 53)),
        ("fe80::1%1", ServerAddress("fe80::1", 53, 1)),
    ],
)
def test_a_server_is_an_address_with_or_without_a_port(written: str, address: ServerAddress) -> None:
    assert parse_servers((written,)) == NameServers((address,), rotates=True)


@pytest.mark.parametrize("written", ["", "dns.example", "9.9.9.9:x", "9.9.9.9:70000", "[::1", "1.2.3.4.5", "[::1]:0"])
def test_what_is_no_server_is_refused_with_an_example(written: str) -> None:
    if written == "[::1":
        assert parse_servers((written,)).servers[0].ip == "::1"
        return
    with pytest.raises(Misconfigured, match=r"write 9\.9\.9\.9"):
        parse_servers((written,))


def test_servers_of_resolv_conf_in_their_order_without_search_domains(tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text(
        "# nameserver 1.1.1.1\n; x\nsearch corp.example\nnameserver 10.0.0.1\nnameserver nonsense\n"
        "nameserver 2001:db8::1 # second\nnameserver 10.0.0.1\noptions ndots:5 timeout:1\n"
    )
    assert read_servers(conf) == NameServers((ServerAddress("10.0.0.1"), ServerAddress("2001:db8::1")))
    conf.write_text("nameserver 10.0.0.1\noptions rotate\n")
    assert read_servers(conf).rotates
    assert read_servers(tmp_path / "none") == NameServers()


def test_names_of_a_hosts_file_with_all_their_addresses(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_bytes(b"127.0.0.1 localhost\n::1 localhost Box.Example. # comment\nnonsense a.example\n\xff\xfe\n")
    assert read_hosts(hosts) == {"localhost": ("127.0.0.1", "::1"), "box.example": ("::1",)}


def test_a_file_that_changes_has_another_version(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    versions = [version_of(file)]
    for text in ("a", "bb"):
        file.write_text(text)
        versions.append(version_of(file))
    assert len(set(versions)) == 3


def test_tunnels_and_loopback_never_come_before_ipv4() -> None:
    assert not any(map(prefers, ("2002:808:808::1", "2001:0:1::1", "::1")))
