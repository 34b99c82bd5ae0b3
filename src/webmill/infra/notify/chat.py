"""Chat services through Apprise (extra `alerts`): Slack, Discord, Telegram, Matrix, ntfy and a hundred more.

https://appriseit.com/services/ lists the addresses. Apprise connects by itself, and tells of a failure only that there
was one; its log says more, with tokens, and stays off.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.notify.base import Notification, NotifyOptions
from webmill.masking import hide_target

INSTALL = "chat services need Apprise: pip install 'webmill[alerts]'"


def open_chat(address: str, options: NotifyOptions) -> ChatSender:
    del options
    return ChatSender(address)


class ChatSender:
    def __init__(self, address: str) -> None:
        self._shown = hide_target(address)
        try:
            apprise = import_module("apprise")
        except ImportError:
            raise Misconfigured(f"{self._shown}: {INSTALL}") from None
        for name in ("apprise", "requests", "urllib3"):  # their lines have the address
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # Nothing may come from files of this machine, or of others.
        asset = apprise.AppriseAsset(plugin_paths=[], secure_logging=True)
        self._service: Any = apprise.Apprise.instantiate(address, asset=asset)
        if self._service is None:
            raise Misconfigured(
                f"{self._shown} is not an address of Apprise: https://appriseit.com/services/ lists them; for a "
                "webhook write https://…, for mail mailto:…"
            )

    def send(self, notification: Notification) -> None:
        try:
            is_taken = self._service.notify(body=notification.text, title=notification.subject)
        except Exception as error:  # noqa: BLE001  a plugin of a hundred; its text may have the address
            raise Unavailable(f"{self._shown}: {type(error).__name__}") from None
        if not is_taken:
            raise Unavailable(f"{self._shown} did not take the message; is its address still right?")
