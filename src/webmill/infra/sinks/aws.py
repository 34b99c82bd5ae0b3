"""What queues and sinks at Amazon share: the address, the client, its errors, batches with retries.

Needs the extra `sqs`. Proxy variables of the environment are not used. Keys that the address does not name come from
the usual places: AWS_* variables, ~/.aws, web identity, the machine's role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.retry import BackoffPolicy, retrying

try:
    import boto3.session  # type: ignore[import-untyped]
    from botocore import exceptions  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]
except ImportError as missing:
    raise Misconfigured("SQS and Kinesis need an extra: pip install 'webmill[sqs]'") from missing

T = TypeVar("T")

PATIENCE = BackoffPolicy(attempts=8, longest_wait=10.0)
RETRYABLE = (
    "throttl",
    "throughputexceeded",
    "limitexceeded",
    "toomanyrequests",
    "overlimit",
    "slowdown",
    "resourceinuse",
)
ABSENT = ("queuedoesnotexist", "nonexistentqueue", "resourcenotfound")


class AwsAddress(msgspec.Struct, frozen=True, kw_only=True):
    scheme: str
    name: str  # of the queue or stream
    region: str | None = None
    endpoint: str | None = None  # None: Amazon
    proxy: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    max_bytes: int | None = None

    @classmethod
    def from_url(cls, url: str) -> Self:
        """`SCHEME://[KEY:SECRET@]NAME[?region=NAME][&endpoint=http://HOST:PORT][&proxy=URL][&max_bytes=N]`"""
        try:
            return cls._decode(url)
        except ValueError:  # not shown: it could hold a secret
            scheme = url.partition(":")[0]
            raise Misconfigured(f"not an address of {scheme}: use {cls.from_url.__doc__}") from None

    @classmethod
    def _decode(cls, url: str) -> Self:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        name = parts.netloc.rpartition("@")[2]
        unknown = options.keys() - {"region", "endpoint", "proxy", "max_bytes"}
        if unknown or not name or parts.path not in ("", "/") or parts.fragment:
            raise ValueError
        keys = {
            "access_key": unquote(parts.username) if parts.username else None,
            "secret_key": unquote(parts.password) if parts.password else None,
        }
        return msgspec.convert({"scheme": parts.scheme, "name": name, **keys, **options}, cls, strict=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.name}"

    def __repr__(self) -> str:
        return f"AwsAddress({str(self)!r}, region={self.region!r}, endpoint={self.endpoint!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """No secret here either: this is what a printed traceback shows."""
        return [("name", str(self)), ("region", self.region), ("endpoint", self.endpoint)]


def connect(address: AwsAddress) -> Any:
    """Return a client that does not retry by itself: it would not know of single entries that failed."""
    config = Config(
        connect_timeout=10,
        read_timeout=60,
        retries={"mode": "standard", "total_max_attempts": 1},
        proxies={"http": address.proxy, "https": address.proxy} if address.proxy else {},
    )
    with aws_errors(address):
        return boto3.session.Session().client(
            address.scheme,
            region_name=address.region,
            endpoint_url=address.endpoint,
            aws_access_key_id=address.access_key,
            aws_secret_access_key=address.secret_key,
            config=config,
        )


def send_all(
    batch: list[T], send: Callable[[list[T]], tuple[list[T], str]], *, what: AwsAddress, patience: BackoffPolicy
) -> None:
    """Send until each is accepted. `send` returns those that were not, and why. Retries start over when some were."""
    left, reason = batch, ""

    def once() -> None:
        nonlocal left, reason
        with aws_errors(what):
            left, reason = send(left)
        if left:
            raise Unavailable(f"{what} did not accept {len(left)} of {len(batch)} messages: {reason}")

    while left:
        before = len(left)
        try:
            retrying(once, policy=patience)
        except Unavailable:
            if len(left) == before:
                raise


def call_patiently(call: Callable[[], T], address: AwsAddress, patience: BackoffPolicy) -> T:
    """Call Amazon, again when that may help, with errors of our tree."""

    def once() -> T:
        with aws_errors(address):
            return call()

    return retrying(once, policy=patience)


@contextmanager
def aws_errors(what: AwsAddress) -> Iterator[None]:
    try:
        yield
    except exceptions.ClientError as error:
        answer = error.response
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        detail = answer.get("Error", {})
        raise error_for_code(
            what, str(detail.get("Code", status)), str(detail.get("Message", "")), status=status
        ) from error
    except (exceptions.HTTPClientError, exceptions.ConnectionError, ResponseParserError) as error:
        raise Unavailable(f"{what}: {error}") from error
    except exceptions.NoRegionError as error:
        raise Misconfigured(f"{what}: no region: add ?region=us-east-1, or set AWS_REGION") from error
    except (exceptions.BotoCoreError, ValueError) as error:  # ValueError: an endpoint that is no address
        raise Misconfigured(f"{what}: {error}") from error


def error_for_code(what: AwsAddress, code: str, message: str, *, status: int) -> Unavailable | Misconfigured:
    plain = code.lower()
    if status >= 500 or status == 429 or any(word in plain for word in RETRYABLE):
        return Unavailable(f"{what}: {code}: {message}")
    if any(word in plain for word in ABSENT):
        where = f"at {what.endpoint}" if what.endpoint else "in this region and account"
        return Misconfigured(f"{what} does not exist {where}: create it, or correct its name or region ({code})")
    return Misconfigured(f"{what}: {code}: {message}")
