"""What is read of the browser's events and answers: the fields that are used, and no others."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from typing import Any

import msgspec


class TargetInfo(msgspec.Struct, rename="camel"):
    target_id: str
    type: str
    url: str = ""
    opener_id: str = ""
    browser_context_id: str = ""


class AttachedTarget(msgspec.Struct, rename="camel"):
    session_id: str
    target_info: TargetInfo


class DetachedTarget(msgspec.Struct, rename="camel"):
    session_id: str


class PostData(msgspec.Struct):
    bytes: str = ""


class PausedHttpRequest(msgspec.Struct, rename="camel"):
    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    post_data_entries: list[PostData] = []
    has_post_data: bool = False

    @property
    def body(self) -> bytes:
        try:
            return b"".join(b64decode(entry.bytes) for entry in self.post_data_entries)
        except BadBase64:
            return b""

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), "")


class PausedRequest(msgspec.Struct, rename="camel"):
    """A request that waits for its answer."""

    request_id: str
    request: PausedHttpRequest
    frame_id: str = ""
    resource_type: str = "Other"
    network_id: str = ""
    redirected_request_id: str = ""


class LifecycleEvent(msgspec.Struct, rename="camel"):
    frame_id: str
    loader_id: str
    name: str


class NavigationStarted(msgspec.Struct, rename="camel"):
    frame_id: str = ""
    loader_id: str = ""
    error_text: str = ""


class WindowOpened(msgspec.Struct):
    url: str = ""


class DownloadBegins(msgspec.Struct, rename="camel"):
    url: str = ""
    guid: str = ""


class SentRequest(msgspec.Struct):
    url: str = ""


class RequestWillBeSent(msgspec.Struct):
    request: SentRequest


class WebSocketCreated(msgspec.Struct):
    url: str = ""


class ExceptionText(msgspec.Struct):
    text: str = ""


class BrowserContext(msgspec.Struct, rename="camel"):
    browser_context_id: str


class CreatedTarget(msgspec.Struct, rename="camel"):
    target_id: str


class RemoteValue(msgspec.Struct):
    value: Any = None


class Evaluated(msgspec.Struct, rename="camel"):
    result: RemoteValue = msgspec.field(default_factory=RemoteValue)
    exception_details: ExceptionText | None = None


class Screenshot(msgspec.Struct):
    data: str = ""


class BrowserCookie(msgspec.Struct, rename="camel"):
    name: str
    value: str = ""
    same_site: str = ""


class BrowserCookies(msgspec.Struct):
    cookies: list[BrowserCookie] = []


class ProcessMetric(msgspec.Struct):
    name: str
    value: float = 0.0


class ProcessMetrics(msgspec.Struct):
    metrics: list[ProcessMetric] = []
