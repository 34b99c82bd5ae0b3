"""Options that several commands share, as one decorator."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """In help they stand in this order."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)
