"""What sites say of the use of their pages, as a filter: the columns `usage_…` of documents."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from webmill.curate.steps import CurateBatch, CurateStep, Limit
from webmill.errors import Misconfigured

COLUMNS: dict[str, str] = {"search": "usage_search", "train-ai": "usage_train_ai", "tdm": "usage_tdm"}
USAGE_REASONS = frozenset(f"{use.replace('-', '_')}_{why}" for use in COLUMNS for why in ("forbidden", "unknown"))


class UsageFilter(CurateStep, frozen=True, kw_only=True, tag="usage"):
    """Documents whose site forbids one of these uses. `on_unknown` says what becomes of those whose site says nothing:
    kept, or dropped unless the site allows each of the uses."""

    respect: tuple[str, ...] = ("train-ai", "tdm")
    on_unknown: Literal["keep", "drop"] = "keep"

    measured: ClassVar = ()

    def __post_init__(self) -> None:
        if unknown := [use for use in self.respect if use not in COLUMNS]:
            raise Misconfigured(f"respect: {unknown[0]!r} is none of {', '.join(COLUMNS)}")

    def columns(self) -> tuple[str, ...]:
        return tuple(COLUMNS.values())

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        said = {name: batch.columns[name] for name in COLUMNS.values()}
        allowed = {
            name: np.array([np.nan if value is None else float(value) for value in values], np.float64)
            for name, values in said.items()
        }
        known = {
            f"{name}_known": np.array([value is not None for value in values], np.int8) for name, values in said.items()
        }
        return {**allowed, **known}

    def limits(self) -> list[Limit]:
        names = [(use.replace("-", "_"), COLUMNS[use]) for use in self.respect]
        forbidden = [Limit(f"{use}_forbidden", column, least=1) for use, column in names]
        if self.on_unknown == "keep":
            return forbidden
        return [*forbidden, *(Limit(f"{use}_unknown", f"{column}_known", least=1) for use, column in names)]
