"""How an application asks its connection to read no more for a while: a refusal that costs nothing to repeat."""

from __future__ import annotations

from starlette.types import Scope

PAUSE_KEY = "webmill.pause"  # in the state of a request
LONGEST = 5.0  # seconds


def pause_client(scope: Scope, seconds: float) -> None:
    """Read nothing from this client's connection for some seconds after this response."""
    scope.setdefault("state", {})[PAUSE_KEY] = min(seconds, LONGEST)


def pause_of(scope: Scope) -> float:
    """Return the seconds for which nothing is to be read after this response."""
    return float(scope.get("state", {}).get(PAUSE_KEY, 0.0))
