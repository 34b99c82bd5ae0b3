"""What the environment of a Lambda function says.

Queue, contact, search index and layout are settings like anywhere (`WEBMILL_QUEUE_URL`, `WEBMILL_HTTP_CONTACT`,
`WEBMILL_SEARCH_URL`, `WEBMILL_PUBLISH_LAYOUT`). What a command would be told by flags is in `WEBMILL_AWS_…`.
`AWS_ENDPOINT_URL` is used as other programs use it: for all of Amazon's services.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from webmill.errors import Misconfigured
from webmill.infra.address import scheme_of
from webmill.publish.guard import MAX_LOSS
from webmill.publish.types import Layout
from webmill.settings import QueueSettings, SearchSettings, load_settings

PREFIX = "WEBMILL_AWS_"
ENDPOINT = "AWS_ENDPOINT_URL"


class LambdaSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of the Lambda functions. Times are in seconds."""

    storage: str  # s3://BUCKET/PREFIX?region=…
    site_map: str = "config/siteMap.json"  # a key in it
    deadline: float = 480.0  # of a run
    pages: int = 1
    delay: float = 1.0  # between two requests to one host
    zone: str = "Asia/Seoul"
    most_lost: float = MAX_LOSS
    allow_private: bool = False
    stack: str = ""  # the name under which the age of the live version is reported
    scratch: str = "/tmp/webmill"  # noqa: S108 - all that Lambda lets us write to, and nobody else's


class LambdaEnvironment(msgspec.Struct, frozen=True):
    settings: LambdaSettings
    queue: QueueSettings
    contact: str
    search: SearchSettings
    layout: Layout


def read_environment(environment: Mapping[str, str]) -> LambdaEnvironment:
    ours = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and value
    }
    try:
        settings = msgspec.convert(ours, LambdaSettings, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"the environment, {PREFIX}…: {error}") from None
    others = {name: value for name, value in environment.items() if not name.startswith(PREFIX)}
    general = load_settings(None, collection=None, environment=others, is_trusted=lambda _: True)  # our own image
    endpoint = environment.get(ENDPOINT)
    return LambdaEnvironment(
        msgspec.structs.replace(settings, storage=with_endpoint(settings.storage, endpoint)),
        msgspec.structs.replace(general.queue, url=with_endpoint(general.queue.url, endpoint)),
        general.http.contact,
        general.search,
        general.publish.layout,
    )


def check_publisher(around: LambdaEnvironment) -> LambdaEnvironment:
    """Raise `Misconfigured` if something is missing that is needed to plan, read and publish boards."""
    if not around.queue.url.startswith("sqs:"):
        raise Misconfigured("the functions need a queue of SQS: set WEBMILL_QUEUE_URL to sqs://NAME.fifo")
    if not around.contact:
        raise Misconfigured("servers must be told whom to ask: set WEBMILL_HTTP_CONTACT")
    return around


def check_indexer(around: LambdaEnvironment) -> LambdaEnvironment:
    """Raise `Misconfigured` if the search index is not on a server: what a function writes to its disk is lost."""
    if scheme_of(around.search.url)[0] == "file":
        raise Misconfigured(
            "the indexer needs a search server: set WEBMILL_SEARCH_URL to meilisearchs://KEY@HOST/INDEX or "
            "opensearchs://USER:PASSWORD@HOST/INDEX"
        )
    return around


def with_endpoint(url: str, endpoint: str | None) -> str:
    """Return the address, with this endpoint unless it names one."""
    if not endpoint or "endpoint=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}endpoint={quote(endpoint, safe=':/')}"
