"""Ports for servers of the tests."""

from __future__ import annotations

from tests.services.base import free_port


def test_no_port_is_given_twice() -> None:
    assert len({free_port() for _ in range(2000)}) == 2000
