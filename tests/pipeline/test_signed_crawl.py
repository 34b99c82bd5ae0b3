"""Requests of a crawl with an identity are signed, and servers can check it."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from tests.pipeline.crawling import Linked, Setup, crawl_here
from webmill.crawl.options import CrawlOptions
from webmill.errors import Misconfigured
from webmill.formats.http.message_signature import check_request
from webmill.infra.bot_keys import BotIdentity, verify
from webmill.pipeline.bot import make_bot
from webmill.testing import Answer, ReceivedRequest, TestWeb


class SignedSetup(Setup, frozen=True, kw_only=True):
    bot: str = ""

    def options(self, root: Path) -> CrawlOptions:
        made = super().options(root)
        return msgspec.structs.replace(made, settings=msgspec.structs.replace(made.settings, bot=self.bot))


class CheckingHost(Linked):
    def __init__(self, keys: dict[str, str]) -> None:
        super().__init__(3)
        self.keys, self.nonces = keys, list[str]()

    def answer(self, request: ReceivedRequest) -> Answer:
        found = check_request(
            request.headers,
            authority=request.headers["Host"],
            now=time.time(),
            verify=lambda keyid, signature, data: verify(self.keys[keyid], signature, data),
        )
        self.nonces.append(found.nonce)
        return super().answer(request)


def test_every_request_carries_a_signature_of_its_own(tmp_path: Path) -> None:
    identity = make_bot(tmp_path / "bot", BotIdentity(url="https://bot.example", contact="me@example.org"), now=0.0)
    host = CheckingHost({key.keyid: key.public for key in identity.keys})
    with TestWeb(hosts=0, sites={"signed.test": host}) as web:
        setup = SignedSetup(seeds=("http://signed.test/",), resolve=dict(web.resolve), bot=str(tmp_path / "bot"))
        crawl_here(tmp_path / "news", setup)
    assert len(host.nonces) == len(set(host.nonces)) == 5  # robots.txt, the seed and three pages


def test_keys_in_the_collection_are_refused(tmp_path: Path) -> None:
    make_bot(tmp_path / "news" / "bot", BotIdentity(url="https://bot.example"), now=0.0)
    from webmill.crawl.politeness.request_signer import open_signer
    from webmill.settings import CrawlSettings

    with pytest.raises(Misconfigured, match="outside"):
        open_signer(CrawlSettings(bot="bot"), tmp_path / "news")
