"""HTML that is hard to read (H01): small by default; /nested/N and /attributes/N grow with the number."""

from __future__ import annotations

from collections.abc import Callable

from webmill.testing.exchange import Answer, HttpReply, ReceivedRequest
from webmill.testing.features.base import Feature, HostFeatures, whole_number

HOST = "bombs.harvest.test"
_MOST = 200_000


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    table.add("/nested/*", "N nested <div>", _grown(lambda n: b"<div>" * n + b"deep"), start="/nested/2000")
    table.add("/attributes/*", "N attributes on one tag", _grown(_attributes), start="/attributes/2000")
    table.add("/formatting/*", "N times <b><i> closed in the wrong order", _grown(_formatting), start="/formatting/200")
    table.add("/templates/*", "N nested <template>", _grown(lambda n: b"<template>" * n), start="/templates/500")
    table.add("/tables/*", "N nested <table>", _grown(lambda n: b"<table><tr><td>" * n), start="/tables/500")
    table.put("/comment", "a comment that never ends", _html(b"<p>Before<!-- " + b"-" * 5000))
    table.put(
        "/cdata",
        "CDATA and processing instructions",
        _html(b"<p><![CDATA[ x ]]> <?php echo 1 ?> <svg><![CDATA[y]]></svg>"),
    )
    table.put("/script", "a script that never ends", _html(b"<p>Before<script>var a = '</scrip' + 't>" + b"x" * 5000))
    table.add("/attribute", "an attribute of 1 MB", lambda _: _html(b'<p title="' + b"x" * 1_000_000 + b'">Text'))
    table.add("/one-line", "1 MB of text without a space", lambda _: _html(b"<p>" + b"x" * 1_000_000))
    table.add(
        "/entities",
        "100,000 character references, some senseless",
        lambda _: _html(b"<p>" + b"&#0;&#x110000;&amp&nosuch;" * 25_000),
    )
    return table.features


def _html(body: bytes) -> HttpReply:
    return HttpReply(body=b"<!doctype html><html lang=en><title>Hard to read</title><body>" + body)


def _grown(make: Callable[[int], bytes]) -> Callable[[ReceivedRequest], Answer]:
    return lambda request: _html(make(whole_number(request.path.split("/")[2], default=100, most=_MOST)))


def _attributes(n: int) -> bytes:
    return b"<p " + b" ".join(b"a%d=1" % each for each in range(n)) + b">Text</p>"


def _formatting(n: int) -> bytes:
    return b"<p><b><i>x</b></i>" * n
