"""Header fields of WARC records and HTTP messages: the noun lives in `model`, because records travel with it."""

from __future__ import annotations

from webmill.model import Headers

__all__ = ["Headers"]
