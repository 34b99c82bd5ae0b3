"""Backends of a seam by name: ours in a table, those of other packages by entry points. Each is loaded when chosen.

    QUEUES = Registry[OpenQueue]("queue", {"sqlite": "webmill.infra.queue.sqlite:open_sqlite"}, group="webmill.queue")

Another package writes into its pyproject.toml

    [project.entry-points."webmill.queue"]
    kafka = "its_package.its_module:open_kafka"

and `--queue kafka://…` opens it. A name in our table is ours: no package can take its place.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar

from webmill.errors import Misconfigured

if TYPE_CHECKING:  # 20 ms, which most commands never need
    from importlib.metadata import EntryPoint

F = TypeVar("F")


class Registry(Generic[F]):
    """The functions that open the backends of one seam, by the scheme of an address.

    `group` is that of the entry points, if others may add theirs; `forms` says how ours are written, for messages.
    """

    def __init__(self, seam: str, backends: Mapping[str, str], *, group: str = "", forms: str = "") -> None:
        self.seam, self.group = seam, group
        self._backends, self._forms = backends, forms

    def find(self, scheme: str) -> F:
        """Return the function for this scheme. `Misconfigured` says which there are."""
        found = self.get(scheme)
        if found is None:
            raise Misconfigured(f"unknown {self.seam} {scheme}: use {self.forms()}")
        return found

    def get(self, scheme: str) -> F | None:
        """Return the function for this scheme, or None. `Misconfigured`: another package's cannot be loaded."""
        if scheme in self._backends:
            module, _, function = self._backends[scheme].partition(":")
            return getattr(import_module(module), function)  # type: ignore[no-any-return]
        point = self._others().get(scheme)
        if point is None:
            return None
        try:
            return point.load()  # type: ignore[no-any-return]
        except Exception as error:  # what other people's modules do when they are loaded is theirs
            raise Misconfigured(
                f"the {self.seam} {scheme} is {point.value} of another package, which cannot be loaded ({error}): "
                "install that package again, or ask its makers"
            ) from error

    def __contains__(self, scheme: str) -> bool:
        return scheme in self._backends or scheme in self._others()

    def schemes(self) -> list[str]:
        """Return all there are: ours, then those of other packages."""
        return [*self._backends, *sorted(self._others().keys() - self._backends.keys())]

    def forms(self) -> str:
        """Return how the addresses of all are written, in words."""
        others = ", ".join(self.schemes()[len(self._backends) :])
        ours = self._forms or ", ".join(self._backends)
        return f"{ours}; or of other packages: {others}" if others else ours

    def _others(self) -> Mapping[str, EntryPoint]:
        return entry_points_of(self.group, tuple(sys.path)) if self.group else {}


@cache
def entry_points_of(group: str, _path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Return the entry points by name. Slow, since it reads the metadata of every installed package."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}
