"""Addresses of search servers: nothing of a password is in a message, whatever was mistyped."""

from __future__ import annotations

import pytest

from webmill.errors import Misconfigured
from webmill.search.address import SearchAddress
from webmill.search.meilisearch import server as meilisearch_server
from webmill.search.opensearch import server as opensearch_server


@pytest.mark.parametrize(
    "url",
    [
        "opensearch://me:hush/1234@127.0.0.1:1/name",
        "opensearch://me:4711/1234@127.0.0.1:1/name",
        "opensearch://me:hush#1@127.0.0.1:1/name",
        "meilisearch://:hush?@127.0.0.1:1/name",
        "meilisearch://hush%0A4711@127.0.0.1:1/name",
    ],
)
def test_a_mistyped_password_is_in_no_message(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        SearchAddress.of(url, port=9200)
    assert not {"hush", "4711", "1234"} & {*str(caught.value).replace(":", " ").replace("/", " ").split()}


def test_a_password_may_have_any_letters_and_a_key_only_those_of_keys() -> None:
    opensearch_server.connect(SearchAddress.of("opensearch://me:%ED%82%A4@127.0.0.1:1/name", port=9200)).close()
    with pytest.raises(Misconfigured, match="the key has characters"):
        meilisearch_server.connect(SearchAddress.of("meilisearch://%ED%82%A4@127.0.0.1:1/name", port=7700))
