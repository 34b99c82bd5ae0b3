"""Plugins that are loaded: their functions by hook, each called with the arguments that it names, timed and counted."""

from __future__ import annotations

import hashlib
import linecache
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pluggy

from webmill.errors import BadInput, Misconfigured, WebmillError
from webmill.infra.plugins.hooks import PROJECT, HookSpecs
from webmill.infra.plugins.sources import DIGEST_CHARS, GROUP, PluginSource

FAILED = "plugin_failed"


class HookCost(msgspec.Struct):
    """What the calls of one hook of one plugin have cost in this process."""

    calls: int = 0
    seconds: float = 0.0
    failed: int = 0

    def add(self, other: HookCost) -> None:
        self.calls += other.calls
        self.seconds += other.seconds
        self.failed += other.failed


class HookCall:
    """One function of one plugin."""

    def __init__(self, plugin: str, hook: str, function: Callable[..., Any], names: Sequence[str]) -> None:
        self.plugin, self.hook, self.cost = plugin, hook, HookCost()
        self._function, self._names = function, tuple(names)

    def __call__(self, **arguments: Any) -> Any:
        """Return what the function returns. BadInput: it failed; WebmillErrors that it raises pass."""
        return self.run(lambda: self._function(**{name: arguments[name] for name in self._names}))

    def run(self, function: Callable[[], Any]) -> Any:
        """Return what a function of the plugin returns, with the same care."""
        began = time.perf_counter()
        try:
            return function()
        except WebmillError:
            self.cost.failed += 1
            raise
        except Exception as error:
            self.cost.failed += 1
            said = f"the plugin {self.plugin} failed in `{self.hook}`: {type(error).__name__}: {error}"
            raise BadInput(said, reason=FAILED) from error
        finally:
            self.cost.calls += 1
            self.cost.seconds += time.perf_counter() - began

    def refuse(self, value: object, wanted: str) -> BadInput:
        """Return the error for a function that has returned something else than its hook says."""
        self.cost.failed += 1
        said = f"the plugin {self.plugin} returned {type(value).__name__} from `{self.hook}` instead of {wanted}"
        return BadInput(said, reason=FAILED)


class Plugins:
    """All that were loaded from some sources. Without any, every question costs next to nothing."""

    def __init__(self, sources: Iterable[PluginSource] = ()) -> None:
        self.sources = tuple(sources)
        self._calls = dict(_calls_by_hook(self.sources)) if self.sources else {}

    def calls(self, hook: str) -> tuple[HookCall, ...]:
        """Return the functions for a hook, in the order in which they are called."""
        return self._calls.get(hook, ())

    def sources_of(self, *hooks: str) -> tuple[PluginSource, ...]:
        """Return the plugins that implement one of these hooks: those on which a result depends."""
        names = {call.plugin for hook in hooks for call in self.calls(hook)}
        return tuple(one for one in self.sources if one.name in names)

    def all_calls(self) -> Iterator[HookCall]:
        for calls in self._calls.values():
            yield from calls

    # --- the hooks, with their results checked ---

    def judge_link(self, url: str, depth: int) -> bool | str | None:
        for call in self.calls("scope"):
            if (opinion := call(url=url, depth=depth)) is not None:
                if not isinstance(opinion, bool | str):
                    raise call.refuse(opinion, "True, False, a URL or None")
                return opinion
        return None

    def request_fields(self, url: str) -> tuple[tuple[str, str], ...]:
        fields: list[tuple[str, str]] = []
        for call in self.calls("before_request"):
            given = call(url=url) or {}
            if not isinstance(given, Mapping) or not all(map(_is_field, given.items())):
                raise call.refuse(given, "names and values of fields")
            fields += given.items()
        return tuple(fields)

    def more_links(self, url: str, status: int, fields: Mapping[str, str], body: bytes) -> list[str]:
        links: list[str] = []
        for call in self.calls("after_response"):
            found = call(url=url, status=status, fields=fields, body=body)
            if found is None:
                continue
            if isinstance(found, str) or not isinstance(found, Iterable):
                raise call.refuse(found, "URLs")
            links += (one for one in found if isinstance(one, str))
        return links

    def extract_text(self, html: str, url: str) -> tuple[str, str] | None:
        """Return a text and the plugin that found it."""
        for call in self.calls("extract"):
            if (text := call(html=html, url=url)) is not None:
                if not isinstance(text, str):
                    raise call.refuse(text, "text")
                return text, call.plugin
        return None

    def change_document(self, document: msgspec.Struct) -> Any:
        for call in self.calls("document"):
            if (changed := call(document=document)) is not None:
                if type(changed) is not type(document):
                    raise call.refuse(changed, "a document")
                document = changed
        return document


NO_PLUGINS = Plugins()


@cache
def load_plugins(sources: tuple[PluginSource, ...]) -> Plugins:
    """Return the plugins of these sources, loaded once in a process. Misconfigured: one cannot be loaded."""
    return Plugins(sources) if sources else NO_PLUGINS


def _is_field(field: tuple[object, object]) -> bool:
    return all(isinstance(part, str) and not {"\r", "\n", "\0"} & set(part) for part in field)


def _calls_by_hook(sources: Sequence[PluginSource]) -> Iterator[tuple[str, tuple[HookCall, ...]]]:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HookSpecs)
    for source in reversed(sources):  # pluggy calls the last one first
        try:
            manager.register(_load(source), name=source.name)
            manager.check_pending()
        except pluggy.PluginValidationError as error:
            raise Misconfigured(f"the plugin {source.name} ({source.place}): {error}") from error
    for hook in vars(manager.hook):
        if calls := tuple(_calls(manager, hook)):
            yield hook, calls


def _calls(manager: pluggy.PluginManager, hook: str) -> Iterator[HookCall]:
    for found in reversed(getattr(manager.hook, hook).get_hookimpls()):
        if found.wrapper or found.hookwrapper:
            raise Misconfigured(f"the plugin {found.plugin_name}: `{hook}` cannot be a wrapper")
        yield HookCall(found.plugin_name, hook, found.function, found.argnames)


def _load(source: PluginSource) -> types.ModuleType:
    try:
        return _run_file(source) if source.is_file else import_module(source.place.partition(":")[0])
    except WebmillError:
        raise
    except Exception as error:
        raise Misconfigured(
            f"the plugin {source.name} ({source.place}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _run_file(source: PluginSource) -> types.ModuleType:
    code = Path(source.place).read_bytes()
    if hashlib.sha256(code).hexdigest()[:DIGEST_CHARS] != source.version:
        raise Misconfigured(f"{source.place} changed while webmill was running: start again")
    module = types.ModuleType(f"{GROUP}.{source.name}")
    module.__file__ = source.place
    sys.modules[module.__name__] = module  # msgspec and pickle look up types there
    linecache.checkcache(source.place)
    exec(compile(code, source.place, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user's own code
    return module
