"""Pay per crawl: a 402 that names its price, `crawler-price: USD 0.01`, as large CDNs answer. webmill never pays."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

import msgspec

from webmill.formats.preferences.statements import ACCESS, Statement, make_statement
from webmill.model import Headers

PAYMENT_REQUIRED = 402
_PRICE = re.compile(r"([A-Za-z]{3})[ \t]+([0-9]{1,12}(?:\.[0-9]{1,12})?)")


class Price(msgspec.Struct, frozen=True):
    """`currency` and `amount` are empty where the field is not understood; `text` is as written."""

    text: str
    currency: str = ""
    amount: Decimal | None = None


def read_price(value: str | None) -> Price:
    """Return what a `crawler-price` says."""
    text = (value or "").strip()
    found = _PRICE.fullmatch(text)
    if found is None:
        return Price(text)
    try:
        return Price(text, found[1].upper(), Decimal(found[2]))
    except InvalidOperation:
        return Price(text)


def payment_statements(status: int, headers: Headers) -> list[Statement]:
    """Return that a page is for sale: it may not be had otherwise."""
    if status != PAYMENT_REQUIRED:
        return []
    price = read_price(headers.get("crawler-price"))
    return [make_statement(ACCESS, allowed=False, source="price", text=price.text or "402")]
