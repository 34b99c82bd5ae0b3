"""The seam of every way to tell somebody something: webhooks, mail, chat services.

What every backend promises
- `send` returns when the other side has taken the message over, and raises otherwise: what it returned from need not be
  sent again. Killed in between, it may have been sent: whoever sends it again uses the same `id`, by which the receiver
  knows it.
- `Unavailable`: it may work later. `Misconfigured`: only the operator can help.
- No error shows a password, a token or a path of an address.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from webmill.infra.plugins.sources import PluginSource


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A message in all its forms; a backend sends the one that it can. `id` is the same each time it is sent."""

    id: str
    subject: str
    text: str
    html: str
    payload: bytes  # JSON


class NotifyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an address does not say."""

    secret: str = ""  # signs webhooks; empty: they are not signed
    allow_private: bool = False  # webhooks on private addresses
    mail_server: str = ""
    mail_from: str = ""
    user_agent: str = "webmill"
    plugins: tuple[PluginSource, ...] = ()


class Sender(Protocol):
    def send(self, notification: Notification) -> None: ...
