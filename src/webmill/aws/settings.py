"""What the environment of a Lambda function says.

Queue and contact are settings like anywhere (`WEBMILL_QUEUE_URL`, `WEBMILL_HTTP_CONTACT` …). What a command would be
told by flags is in `WEBMILL_AWS_…`. `AWS_ENDPOINT_URL` is used as other programs use it: for all of Amazon's services.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from webmill.errors import Misconfigured
from webmill.publish.guard import MAX_LOSS
from webmill.settings import QueueSettings, load_settings

PREFIX = "WEBMILL_AWS_"
ENDPOINT = "AWS_ENDPOINT_URL"


class LambdaSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times in seconds."""

    storage: str  # s3://BUCKET/PREFIX?region=…
    site_map: str = "config/siteMap.json"  # a key in it
    deadline: float = 480.0  # of a run
    pages: int = 1
    delay: float = 1.0  # between two requests to one host
    zone: str = "Asia/Seoul"
    most_lost: float = MAX_LOSS
    allow_private: bool = False
    scratch: str = "/tmp/webmill"  # noqa: S108 - all that Lambda lets us write to, and nobody else's


class LambdaEnvironment(msgspec.Struct, frozen=True):
    settings: LambdaSettings
    queue: QueueSettings
    contact: str


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
    general = load_settings(None, collection=None, environment=others)
    if not general.queue.url.startswith("sqs:"):
        raise Misconfigured("the functions need a queue of SQS: set WEBMILL_QUEUE_URL to sqs://NAME.fifo")
    if not general.http.contact:
        raise Misconfigured("servers must be told whom to ask: set WEBMILL_HTTP_CONTACT")
    endpoint = environment.get(ENDPOINT)
    return LambdaEnvironment(
        msgspec.structs.replace(settings, storage=with_endpoint(settings.storage, endpoint)),
        msgspec.structs.replace(general.queue, url=with_endpoint(general.queue.url, endpoint)),
        general.http.contact,
    )


def with_endpoint(url: str, endpoint: str | None) -> str:
    """The address, at this endpoint unless it names one."""
    if not endpoint or "endpoint=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}endpoint={quote(endpoint, safe=':/')}"
