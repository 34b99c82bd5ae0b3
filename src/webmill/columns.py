"""What a column of a row is for, declared beside its type: every schema and the docs are made from it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, get_args

import msgspec


class DocumentColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column of `Document`: the Parquet schema, every search schema and the docs are made from these.

    `searchable`: queries match its words or, for a time, periods. `facet`: its values are counted and can be filtered
    by. `shown`: it is part of search results, API responses and result pages. `content`: it is stored in the published
    blob, so a changed value counts as a changed document.
    """

    name: str
    type: Any
    meaning: str
    searchable: bool = False
    facet: bool = False
    shown: bool = False
    content: bool = False

    @property
    def is_time(self) -> bool:
        return datetime in (self.type, *get_args(self.type))


def column(
    meaning: str, *, searchable: bool = False, facet: bool = False, shown: bool = False, content: bool = False
) -> msgspec.Meta:
    """Return the annotation that declares what a column is for; see `DocumentColumn`."""
    flags = {"searchable": searchable, "facet": facet, "shown": shown, "content": content}
    return msgspec.Meta(description=meaning, extra=flags)


def column_of(name: str, hint: Any) -> DocumentColumn:
    """Return the column that the type hint of a field declares."""
    meta = next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, msgspec.Meta)), None)
    kind = hint.__origin__ if meta else hint
    return DocumentColumn(
        name=name, type=kind, meaning=(meta.description or "") if meta else "", **(meta.extra if meta else None) or {}
    )
