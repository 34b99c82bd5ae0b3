"""Ways to tell somebody something, by the scheme of the address; every other scheme is one of Apprise."""

from __future__ import annotations

from importlib import import_module

from webmill.infra.notify.base import NotifyOptions, Sender

BACKENDS = {
    "mailto": "webmill.infra.notify.mail:open_mail",
    "http": "webmill.infra.notify.webhook:open_webhook",
    "https": "webmill.infra.notify.webhook:open_webhook",
    "plugin": "webmill.infra.notify.plugin:open_plugin",
}
CHAT = "webmill.infra.notify.chat:open_chat"


def open_sender(address: str, options: NotifyOptions) -> Sender:
    """Return the sender for an address. `Misconfigured`: it cannot be used."""
    module, _, function = BACKENDS.get(address.partition(":")[0].lower(), CHAT).partition(":")
    sender: Sender = getattr(import_module(module), function)(address, options)
    return sender
