"""A crawl of several blocks and hosts, with revisits and every kind of status, and questions about it."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.unit.index.samples import cut_into
from tests.unit.index.zipnum_samples import make_url
from webmill.collection import Collection
from webmill.formats.url.surt import surt
from webmill.index.zipnum.writer import write_index

NAME = "BIG-2024"
MIMES = ("text/html", "text/html", "text/plain", "application/pdf", "image/png")
STATUSES = ("200", "200", "301", "404")
Params = list[tuple[str, str]]


def make_captures(count: int, *, seed: int = 1) -> list[bytes]:
    """Sorted lines. A few URLs have hundreds of captures, over many blocks; some captures are revisits of others."""
    dice = random.Random(seed)
    hot = [make_url(dice) for _ in range(4)]
    lines = []
    for number in range(count):
        url = dice.choice(hot) if dice.random() < 0.3 else make_url(dice)
        stamp = f"{dice.randrange(2019, 2025)}{dice.randrange(1, 13):02d}{dice.randrange(1, 29):02d}"
        stamp += f"{dice.randrange(24):02d}{dice.choice(('0000', '3015'))}"
        fields = {"url": url.replace("Ä ö", "%C3%84%20%C3%B6"), "mime": dice.choice(MIMES)}
        if dice.random() < 0.2:
            fields["mime"] = "warc/revisit"
        else:
            fields["status"] = dice.choice(STATUSES)
        if dice.random() < 0.95:
            fields["digest"] = f"SHA{dice.randrange(count // 4)}"
        fields |= {
            "length": str(dice.randrange(200, 9000)),
            "offset": str(number),
            "filename": f"a{number % 7}.warc.gz",
        }
        if dice.random() < 0.3:
            fields["languages"] = dice.choice(("eng", "kor", "eng,fra"))
        lines.append(f"{surt(url)} {stamp} {json.dumps(fields)}\n".encode())
    return sorted(lines)


def put_index(root: Path, lines: list[bytes], *, name: str = NAME, block: int = 20) -> Path:
    folder = Collection(root, name).zipnum
    folder.mkdir(parents=True)
    write_index(cut_into(lines, 100), folder, lines=block, shard_size=20_000)
    return folder


# --- questions --------------------------------------------------------------------------------------------------------

FILTERS = (
    "=status:200",
    "!=status:200",
    "status:30",
    "=statuscode:404",
    "mime:text",
    "!mime:html",
    "~mime:.*/p.*",
    "!~mimetype:text/.*",
    "=languages:eng",
    "languages:eng",
    r"~url:https?://[^/]*a\.com/",
    "!~url:.*[?].*",
    "urlkey:a,com",
    "~timestamp:20(19|20)0[1-6]",
    "=digest:SHA7",
    "original:x=1",
    "warc/revisit",
    "!text/html",
    "=nosuch:",
    "!=nosuch:x",
    "f:a3",
    "~l:1...$",
)
FIELDS = (
    "urlkey",
    "timestamp",
    "url",
    "mime",
    "status",
    "digest",
    "length",
    "offset",
    "filename",
    "languages",
    "nosuch",
)


def make_query(dice: random.Random, lines: list[bytes]) -> Params:
    """As pywb understands it. What pywb cannot answer (docs/reference/cdx-api.md) is not asked."""
    asked = _range(dice, lines)
    output = dice.choice(("json", "json", "cdxj", "text"))
    asked.append(("output", output))
    kind = dice.random()
    if kind < 0.12:
        return [*asked, ("showNumPages", "true"), *_page_size(dice)]
    if kind < 0.2:
        asked[-1] = ("output", dice.choice(("json", "text")))
        return [*asked, ("showPagedIndex", "true"), *_page(dice), *_page_size(dice)]
    if kind < 0.5:
        asked += [*_page(dice), *_page_size(dice)]
    resolved = dice.random() < 0.15
    if resolved:
        asked.append(("resolveRevisits", "true"))
    filters = [text for text in FILTERS if ":" in text or "/" not in text or not resolved]
    asked += [("filter", dice.choice(filters)) for _ in range(dice.choice((0, 0, 1, 1, 2, 3)))]
    asked += _period(dice) + _order(dice)
    if dice.random() < 0.2:
        asked.append(("collapseTime", str(dice.choice((4, 6, 8, 10, 14)))))
    if dice.random() < 0.4:
        asked.append(("limit", str(dice.choice((1, 2, 7, 50, 1000)))))
    if dice.random() < 0.3 or (resolved and output == "text"):
        asked.append((dice.choice(("fl", "fields")), ",".join(dice.sample(FIELDS, dice.randrange(1, 6)))))
    return asked


def _range(dice: random.Random, lines: list[bytes]) -> Params:
    url: str = json.loads(dice.choice(lines).split(b" ", 2)[2])["url"]
    host = url.split("/")[2]
    match dice.randrange(10):
        case 0:
            url = dice.choice(("http://0.0.0.0/", "zzz.zzz", "http://nowhere.a.com/", url + "zz"))
        case 1:
            return [("url", f"*.{host}")]
        case 2:
            return [("url", f"*.{host.rpartition('.')[2].partition(':')[0]}")]
        case 3:
            return [("url", url[: dice.randrange(len("https://a.com"), len(url) + 1)] + "*")]
        case 4:
            return [("url", url)]
    return [("url", url), ("matchType", dice.choice(("exact", "prefix", "host", "domain")))]


def _page(dice: random.Random) -> Params:
    return [("page", str(dice.choice((0, 0, 0, 1, 1, 2, 3, 9))))]


def _page_size(dice: random.Random) -> Params:
    return [("pageSize", str(dice.choice((1, 2, 3, 7))))] if dice.random() < 0.6 else []


def _period(dice: random.Random) -> Params:
    found: Params = []
    if dice.random() < 0.25:
        found.append((dice.choice(("from", "from_ts")), _moment(dice)))
    if dice.random() < 0.25:
        found.append(("to", _moment(dice)))
    return found


def _moment(dice: random.Random) -> str:
    whole = f"{dice.randrange(2019, 2025)}{dice.randrange(1, 13):02d}{dice.randrange(1, 29):02d}123000"
    return whole[: dice.choice((4, 6, 8, 10, 14))]


def _order(dice: random.Random) -> Params:
    match dice.randrange(6):
        case 0:
            return [("sort", "reverse")]
        case 1:
            return [("closest", _moment(dice))]
        case 2:
            return [("sort", "closest"), ("closest", dice.choice((_moment(dice), "")))]
    return []
