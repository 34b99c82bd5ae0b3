"""A client for a server that speaks JSON over HTTP: kept connections, bounded answers, errors of our tree.

404, 410             NotFound
409, 412             Conflict
408, 425, 429, 5xx   Unavailable, as is a connection that breaks: retried, so send only what may be done twice
401, 403, 407        Misconfigured: the key
other                BadInput `refused`, with what the server says
"""

from __future__ import annotations

import re
from typing import Self, TypeVar

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.infra.retry import BackoffPolicy, retrying

CONNECT, SILENCE = 10.0, 120.0  # seconds
LARGEST = 256 << 20  # bytes of an answer
LONGEST_MESSAGE = 300  # characters of an answer that a message quotes

T = TypeVar("T")


class JsonServer:
    """`headers` hold the credentials: no message shows them. Threads may share it."""

    def __init__(
        self,
        address: str,
        *,
        headers: dict[str, str],
        policy: BackoffPolicy,
        pool: urllib3.PoolManager | None = None,
    ) -> None:
        self.address = address.rstrip("/")
        self._headers, self._policy = {"Accept-Encoding": "identity", **headers}, policy
        self._pool = pool or urllib3.PoolManager(maxsize=4)

    def with_patience(self, policy: BackoffPolicy) -> Self:
        """Return a client of the same server, sharing its connections, with other retries."""
        return type(self)(self.address, headers=self._headers, policy=policy, pool=self._pool)

    def ask(self, method: str, path: str, body: object = None, *, answer: type[T]) -> T:
        """Send a request and decode the answer. A `body` of bytes is lines of JSON already."""
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        content = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        data = retrying(lambda: self._ask(method, path, content, kind), policy=self._policy)
        try:
            return msgspec.json.decode(data, type=answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Misconfigured(
                f"{self.address}{path}: not an answer of the expected kind of server ({error}); check the address"
            ) from error

    def _ask(self, method: str, path: str, content: bytes | None, kind: str) -> bytes:
        url = self.address + path
        headers = self._headers if content is None else {**self._headers, "Content-Type": kind}
        try:
            reply = self._pool.request(
                method,
                url,
                body=content,
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT, read=SILENCE),
                preload_content=False,
                redirect=False,
                retries=False,
            )
            data = reply.read(LARGEST + 1, decode_content=False)
            (reply.release_conn if len(data) <= LARGEST else reply.close)()
        except HTTPError as error:
            raise Unavailable(f"{url}: {error}") from error
        if len(data) > LARGEST:
            raise BadInput(f"an answer of more than {LARGEST >> 20} MiB", reason="refused", source=url)
        if reply.status not in range(200, 300):
            raise error_for_status(reply.status, data, url=url, retry_after=reply.headers.get("Retry-After", ""))
        return data

    def close(self) -> None:
        self._pool.clear()


def error_for_status(status: int, data: bytes, *, url: str, retry_after: str = "") -> WebmillError:
    """Return the error for a status, as in the table at the top of this file."""
    text = data[: 4 * LONGEST_MESSAGE].decode(errors="replace")[:LONGEST_MESSAGE]
    message = f"{url}: status {status}: {''.join(each if each.isprintable() else ' ' for each in text)}"
    if status in (404, 410):
        return NotFound(message)
    if status in (409, 412):
        return Conflict(message)
    if status in (408, 425, 429) or status >= 500:
        seconds = float(retry_after) if re.fullmatch("[0-9]{1,9}", retry_after) else None
        return Unavailable(message, retry_after=seconds)
    if status in (401, 403, 407):
        return Misconfigured(f"{message}: give a key that may do this, in the address before the @")
    return BadInput(message, reason="refused")
