"""Requests to the API of another server, which may be hostile: bounded answers, a deadline for each, a rate, retries of
what may work later, no redirects, no proxies or credentials of the environment.

Statuses mean what they mean for reads of files (`storage/http_answers.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from webmill.errors import BadInput, Misconfigured, NotFound, Unavailable
from webmill.infra.host_schedule.limiter import RequestLimiter
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.storage.http import HttpReadLimits
from webmill.infra.storage.http_answers import describe_failure, error_for_status, is_http
from webmill.infra.storage.http_deadline import deadline, open_pool
from webmill.masking import hide_secrets

T = TypeVar("T")
Query = Sequence[tuple[str, str | bytes]]

LARGEST = 64 << 20  # bytes of an answer
LONGEST_MESSAGE = 500
PIECE = 64 << 10
_NEXT = re.compile(r'<(/[^<>]{1,60000})>; rel="next"')


class ApiAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A body, and the path at which the next part is; empty if this is the last."""

    body: bytes
    following: str = ""


class ServerMessage(msgspec.Struct, frozen=True):
    """What a server says of an error."""

    message: str = ""


class ApiServer:
    """A server below an address. Threads may share it."""

    def __init__(
        self,
        address: str,
        *,
        user_agent: str,
        limiter: RequestLimiter,
        policy: BackoffPolicy,
        limits: HttpReadLimits | None = None,
    ) -> None:
        if not is_http(address):
            raise Misconfigured(f"not an http or https address: {hide_secrets(address)}")
        self.address = address.rstrip("/")
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        self._limiter, self._policy, self._limits = limiter, policy, limits or HttpReadLimits()
        self._pool = open_pool(proxy=None, connections=8)

    def get(self, path: str, query: Query = (), *, accept: str = "application/json", most: int = LARGEST) -> ApiAnswer:
        """Return an answer of at most `most` bytes; `Misconfigured`: it is larger, or no answer to this."""
        values = [(name, value) for name, value in query if value]
        target = f"{path}?{urlencode(values)}" if values else path
        return retrying(lambda: self._get(target, accept, most), policy=self._policy)

    def get_json(self, path: str, query: Query = (), *, answer: type[T]) -> T:
        body = self.get(path, query).body
        try:
            return msgspec.json.decode(body, type=answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Misconfigured(f"{self.address}{path}: not an answer of webmill's API ({error})") from error

    def close(self) -> None:
        self._pool.clear()

    def _get(self, target: str, accept: str, most: int) -> ApiAnswer:
        url = self.address + target
        with self._limiter.request():
            try:
                with deadline(self._limits.total):
                    answer = self._pool.request(
                        "GET",
                        url,
                        headers={**self._headers, "Accept": accept},
                        timeout=urllib3.Timeout(connect=self._limits.connect, read=self._limits.silence),
                        preload_content=False,
                        decode_content=False,
                        redirect=False,
                        retries=False,
                    )
                    body = read_up_to(answer, most + 1)
            except HTTPError as error:
                raise Unavailable(f"{url[:300]}: the server does not answer: {describe_failure(error)}") from error
            (answer.release_conn if len(body) <= most else answer.close)()
            if answer.status != 200:
                raise self._error(answer, target, body)
        if len(body) > most:
            raise Misconfigured(f"{url[:300]}: an answer of more than {most >> 20} MiB")
        link = _NEXT.fullmatch(answer.headers.get("Link", ""))
        return ApiAnswer(body=body, following=link[1] if link else "")

    def _error(self, answer: urllib3.BaseHTTPResponse, target: str, body: bytes) -> Exception:
        """Return the error for a status, with what the server says."""
        try:
            told = msgspec.json.decode(body[:LARGEST], type=ServerMessage).message[:LONGEST_MESSAGE]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            told = ""
        told = "".join(each if each.isprintable() else " " for each in told)
        key = f"{self.address}{target.partition('?')[0]}"
        if answer.status == 404 and told:
            return NotFound(f"{key}: {told}")
        if answer.status in (400, 422):
            return BadInput(told or f"{key}: status {answer.status}", reason="bad_query")
        return error_for_status(answer, key=f"{key}: {told}" if told else key)


def read_up_to(answer: urllib3.BaseHTTPResponse, most: int) -> bytes:
    """Return the body, or a little more than `most` bytes of it. A body that ends early is an `HTTPError`."""
    body = bytearray()
    while len(body) < most and (piece := answer.read(PIECE)):
        body += piece
    return bytes(body)
