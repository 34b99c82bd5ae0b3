"""A plugin of the user is told, by its hook `on_change`: it gets what a webhook gets."""

from __future__ import annotations

import msgspec

from webmill.errors import BadInput, Misconfigured, Unavailable
from webmill.infra.notify.base import Notification, NotifyOptions
from webmill.infra.plugins.loaded import HookCall, load_plugins


def open_plugin(address: str, options: NotifyOptions) -> PluginSender:
    name = address.partition(":")[2]
    for call in load_plugins(options.plugins).calls("on_change"):
        if call.plugin == name:
            return PluginSender(call)
    raise Misconfigured(f"no plugin {name!r} with `on_change`: `webmill plugins` lists what is loaded")


class PluginSender:
    def __init__(self, call: HookCall) -> None:
        self._call = call

    def send(self, notification: Notification) -> None:
        try:
            self._call(changes=msgspec.json.decode(notification.payload))
        except BadInput as error:
            raise Unavailable(error.message) from error
