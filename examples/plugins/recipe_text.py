"""Recipes by a rule of their own: the ingredients, which extractors take for a menu; and the site in every title."""

import re

import msgspec

from webmill import hookimpl

INGREDIENTS = re.compile(r'<ul class="ingredients">(.*?)</ul>', re.DOTALL)
ITEM = re.compile(r"<li>(.*?)</li>", re.DOTALL)


@hookimpl
def extract(html):
    found = INGREDIENTS.search(html)
    return "\n".join(ITEM.findall(found[1])) if found else None


@hookimpl
def document(document):
    if not document.title or not document.site_name:
        return None  # as it is
    return msgspec.structs.replace(document, title=f"{document.title} ({document.site_name})")
