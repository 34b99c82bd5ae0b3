"""The conformance web: what sites say of the use of a page, and what each purpose may do then.

Expected are five letters, for archive, search, training, research and monitoring: `.` allow, `l` limit, `d` deny. They
were written down from the specifications, and not by the program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

FREE, TRAIN, TDM, SEARCH = ".....", "..dl.", "..dd.", "ld..."
REPLAY, SNIPPET, CLOSED = "lllll", "ll...", "ddddd"
RSL_TYPE = "application/rsl+xml"


@dataclass(frozen=True)
class UsageCase:
    name: str
    expected: str
    headers: tuple[tuple[str, str], ...] = ()
    head: str = ""
    body: str = ""
    robots: str = ""
    tdmrep: str = ""
    rsl: str = ""
    path: str = "/page"
    status: int = 200
    media_type: str = "text/html"

    @property
    def page(self) -> str:
        return (
            f"<!doctype html><html><head><title>T</title>{self.head}</head><body><p>Text</p>{self.body}</body></html>"
        )


def cases() -> list[UsageCase]:
    return [
        UsageCase("nothing is said", FREE),
        *content_usage(),
        *robots_usage(),
        *robots_rules(),
        *tdm(),
        *rsl(),
        *directives(),
        *prices(),
        *conflicts(),
    ]


def content_usage() -> Iterator[UsageCase]:
    for value, expected in {
        "train-ai=n": TRAIN,
        "train-ai=y": FREE,
        "train-ai=n, search=y": TRAIN,
        "search=n": SEARCH,
        "search=n, train-ai=n": "lddl.",
        "search=y": FREE,
        "train-ai=n;x=1": TRAIN,
        "train-ai=n;x=1, search=n;y": "lddl.",
        "train-ai=y, train-ai=n": TRAIN,
        "train-ai=n, train-ai=y": FREE,
        "train-ai=?0": FREE,
        "train-ai=0": FREE,
        "train-ai": FREE,
        'train-ai="n"': FREE,
        "train-ai=N": FREE,
        "train-ai=no": FREE,
        "TRAIN-AI=n": FREE,
        "train-ai = n": FREE,
        "train-ai=n,": FREE,
        ",train-ai=n": FREE,
        "train-ai=n;;": FREE,
        "train-ai=n search=n": FREE,
        "train-ai=(n)": FREE,
        "train-ai=:bg==:": FREE,
        "unknown=n": FREE,
        "unknown=n, train-ai=n": TRAIN,
        "access=n": FREE,
        "replay=n": FREE,
        "tdm=n": FREE,
        "bots=n": FREE,
        "train-ai=n,\tsearch=y": TRAIN,
        "  train-ai=n  ": TRAIN,
        "train-ai=n, \u00e4=n": FREE,
        "x=" + "a" * 20_000 + ", train-ai=n": FREE,
        ", ".join(f"k{number}=y" for number in range(300)) + ", train-ai=n": FREE,
        ", ".join(f"k{number}=y" for number in range(100)) + ", train-ai=n": TRAIN,
        "train-ai=n, search=y, x=1.5, z=@1659578233": TRAIN,
    }.items():
        yield UsageCase(f"header Content-Usage: {value[:40]!r} {len(value)}", expected, (("Content-Usage", value),))
    two = (("Content-Usage", "search=y"), ("content-usage", "train-ai=n"))
    yield UsageCase("two fields are one dictionary", TRAIN, two)
    two = (("Content-Usage", "train-ai=n"), ("Content-Usage", "train-ai=y"))
    yield UsageCase("the last of two fields counts", FREE, two)
    two = (("Content-Usage", "train-ai=n"), ("Content-Usage", "=="))
    yield UsageCase("one broken field breaks both", FREE, two)
    yield UsageCase("another name", FREE, (("X-Content-Usage", "train-ai=n"),))
    yield UsageCase("a redirect", TRAIN, (("Content-Usage", "train-ai=n"), ("Location", "/x")), status=301)
    yield UsageCase("a page that is gone", TRAIN, (("Content-Usage", "train-ai=n"),), status=404)
    yield UsageCase("a picture", TRAIN, (("Content-Usage", "train-ai=n"),), media_type="image/png")
    yield UsageCase("a <meta> of that name is none", FREE, head='<meta name="content-usage" content="train-ai=n">')


def robots_usage() -> Iterator[UsageCase]:
    for name, (robots, expected) in {
        "for all": ("User-agent: *\nContent-Usage: train-ai=n\n", TRAIN),
        "for us": ("User-agent: webmill\nContent-Usage: train-ai=n\n", TRAIN),
        "for us, another case": ("user-agent: WebMill\ncontent-usage: train-ai=n\n", TRAIN),
        "for another": ("User-agent: other\nContent-Usage: train-ai=n\n", FREE),
        "our group instead of all": (
            "User-agent: *\nContent-Usage: train-ai=n\n\nUser-agent: webmill\nAllow: /\n",
            FREE,
        ),
        "our group and another": (
            "User-agent: webmill\nContent-Usage: search=n\n\nUser-agent: other\nContent-Usage: train-ai=n\n",
            SEARCH,
        ),
        "two agents of a group": ("User-agent: other\nUser-agent: webmill\nContent-Usage: train-ai=n\n", TRAIN),
        "two groups of ours": (
            "User-agent: webmill\nContent-Usage: train-ai=n\nAllow: /\nUser-agent: webmill\nContent-Usage: search=n\n",
            "lddl.",
        ),
        "a path that matches": ("User-agent: *\nContent-Usage: /page train-ai=n\n", TRAIN),
        "a path that does not": ("User-agent: *\nContent-Usage: /other train-ai=n\n", FREE),
        "the longer path allows": (
            "User-agent: *\nContent-Usage: / train-ai=n\nContent-Usage: /pa train-ai=y\n",
            FREE,
        ),
        "the longer path forbids": (
            "User-agent: *\nContent-Usage: /page train-ai=n\nContent-Usage: / train-ai=y\n",
            TRAIN,
        ),
        "the longer path speaks of something else": (
            "User-agent: *\nContent-Usage: / train-ai=n\nContent-Usage: /page search=n\n",
            SEARCH,
        ),
        "the same path twice": (
            "User-agent: *\nContent-Usage: /page train-ai=y\nContent-Usage: /page train-ai=n\n",
            TRAIN,
        ),
        "no path is the shortest": (
            "User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: /page train-ai=y\n",
            FREE,
        ),
        "a star": ("User-agent: *\nContent-Usage: /p*e train-ai=n\n", TRAIN),
        "a star at the start": ("User-agent: *\nContent-Usage: *age train-ai=n\n", TRAIN),
        "an end": ("User-agent: *\nContent-Usage: /page$ train-ai=n\n", TRAIN),
        "an end that is none": ("User-agent: *\nContent-Usage: /pag$ train-ai=n\n", FREE),
        "an escape": ("User-agent: *\nContent-Usage: /%70age train-ai=n\n", TRAIN),
        "a comment": ("User-agent: *\nContent-Usage: train-ai=n # but ask\n", TRAIN),
        "commented out": ("User-agent: *\n#Content-Usage: train-ai=n\n", FREE),
        "white space": (" User-agent : * \n\t Content-Usage :  train-ai=n\t\n", TRAIN),
        "other line ends": ("User-agent: *\r\nContent-Usage: train-ai=n\rAllow: /", TRAIN),
        "a byte order mark": ("\ufeffUser-agent: *\nContent-Usage: train-ai=n\n", TRAIN),
        "before all groups": ("Content-Usage: train-ai=n\nUser-agent: *\nAllow: /\n", FREE),
        "no dictionary": ("User-agent: *\nContent-Usage: train-ai=\n", FREE),
        "empty": ("User-agent: *\nContent-Usage:\n", FREE),
        "a path alone": ("User-agent: *\nContent-Usage: /page\n", FREE),
        "a missing colon": ("User-agent: *\nContent-Usage train-ai=n\n", FREE),
        "unknown labels": ("User-agent: *\nContent-Usage: dreams=n\n", FREE),
        "it ends no list of agents": (
            "User-agent: other\nContent-Usage: train-ai=n\nUser-agent: webmill\nDisallow: /nothing\n",
            FREE,
        ),
        "many rules": (
            "User-agent: *\n"
            + "".join(f"Content-Usage: /{n} train-ai=y\n" for n in range(150))
            + "Content-Usage: train-ai=n\n",
            TRAIN,
        ),
        "behind what is read": ("User-agent: *\n" + "#" * 520_000 + "\nContent-Usage: train-ai=n\n", FREE),
    }.items():
        yield UsageCase(f"robots.txt Content-Usage: {name}", expected, robots=robots)


def robots_rules() -> Iterator[UsageCase]:
    for name, (robots, expected) in {
        "disallowed": ("User-agent: *\nDisallow: /page\n", CLOSED),
        "all disallowed": ("User-agent: *\nDisallow: /\n", CLOSED),
        "us disallowed": ("User-agent: webmill\nDisallow: /\n", CLOSED),
        "another disallowed": ("User-agent: gptbot\nDisallow: /\n", FREE),
        "another path": ("User-agent: *\nDisallow: /private\n", FREE),
        "allow wins by length": ("User-agent: *\nDisallow: /\nAllow: /page\n", FREE),
        "disallow wins by length": ("User-agent: *\nAllow: /\nDisallow: /page\n", CLOSED),
        "allow wins a tie": ("User-agent: *\nDisallow: /page\nAllow: /page\n", FREE),
        "an empty file": ("", FREE),
        "a page instead of a file": ("<html><body>Disallow: /</body></html>", FREE),
        "disallowed, and usage allowed": ("User-agent: *\nDisallow: /\nContent-Usage: train-ai=y\n", CLOSED),
        "allowed, and usage forbidden": ("User-agent: *\nAllow: /\nContent-Usage: train-ai=n\n", TRAIN),
        "NUL bytes": ("User-agent: *\n\0Disallow: /\0\n", CLOSED),
        "a misspelled name": ("User-agent: *\nDissallow: /\n", CLOSED),
    }.items():
        yield UsageCase(f"robots.txt: {name}", expected, robots=robots)


def tdm() -> Iterator[UsageCase]:
    for value, expected in {
        "1": TDM, " 1 ": TDM, "0": FREE, "": FREE, "true": FREE, "yes": FREE, "2": FREE, "-1": FREE, "01": FREE,
        "1, 1": FREE, '"1"': FREE, "1;x": FREE, "1" * 5000: FREE,
    }.items():  # fmt: skip
        yield UsageCase(f"header tdm-reservation: {value[:9]!r}", expected, (("tdm-reservation", value),))
        yield UsageCase(
            f"meta tdm-reservation: {value[:9]!r}",
            expected,
            head=f"<meta name='tdm-reservation' content='{value.replace(chr(39), '')}'>",
        )
    policy = ("TDM-Policy", "https://a.example/policy.json")
    yield UsageCase("header with a policy", TDM, (("TDM-Reservation", "1"), policy))
    yield UsageCase("a policy alone", FREE, (policy,))
    meta = '<META CONTENT="{}" NAME="TDM-Reservation">'
    yield UsageCase("meta in upper case", TDM, head=meta.format(1))
    yield UsageCase("the header counts and not the meta", FREE, (("tdm-reservation", "0"),), meta.format(1))
    yield UsageCase("the header counts and allows nothing else", TDM, (("tdm-reservation", "1"),), meta.format(0))
    yield UsageCase("a header without a word leaves the meta", TDM, (("tdm-reservation", "x"),), meta.format(1))
    yield UsageCase("the first meta counts", FREE, head=meta.format(0) + meta.format(1))
    yield UsageCase("meta in a comment", FREE, head=f"<!-- {meta.format(1)} -->")
    yield UsageCase("meta in a script", FREE, head=f"<script>'{meta.format(1)}'</script>")
    yield UsageCase("meta without quotes", TDM, head="<meta name=tdm-reservation content=1>")
    yield UsageCase("meta with an entity", TDM, head="<meta name='tdm-reservation' content='&#49;'>")
    for name, (listed, expected) in {
        "all": ([{"location": "/", "tdm-reservation": 1}], TDM),
        "all by a star": ([{"location": "*", "tdm-reservation": 1}], TDM),
        "as text": ([{"location": "/", "tdm-reservation": "1"}], TDM),
        "none": ([{"location": "/", "tdm-reservation": 0}], FREE),
        "another path": ([{"location": "/other", "tdm-reservation": 1}], FREE),
        "a pattern": ([{"location": "/p*", "tdm-reservation": 1, "tdm-policy": "https://a.example/p"}], TDM),
        "an end": ([{"location": "*page$", "tdm-reservation": 1}], TDM),
        "the first counts": (
            [{"location": "/page", "tdm-reservation": 0}, {"location": "/", "tdm-reservation": 1}],
            FREE,
        ),
        "the first counts and forbids": (
            [{"location": "/page", "tdm-reservation": 1}, {"location": "/", "tdm-reservation": 0}],
            TDM,
        ),
        "entries that are none": ([7, None, {"location": 3}, {"location": "/", "tdm-reservation": 1}], TDM),
        "without a location": ([{"tdm-reservation": 1}], FREE),
        "true is no number": ([{"location": "/", "tdm-reservation": True}], FREE),
        "an object": ({"location": "/", "tdm-reservation": 1}, FREE),
        "nothing": ([], FREE),
        "without a slash": ([{"location": "page", "tdm-reservation": 1}], TDM),
        "many": ([{"location": f"/{n}", "tdm-reservation": 1} for n in range(900)], FREE),
    }.items():
        yield UsageCase(f"tdmrep.json: {name}", expected, tdmrep=json.dumps(listed))
    all_reserved = json.dumps([{"location": "/", "tdm-reservation": 1}])
    yield UsageCase("tdmrep.json: not JSON", FREE, tdmrep="[{")
    yield UsageCase("tdmrep.json: a byte order mark", TDM, tdmrep="\ufeff" + all_reserved)
    yield UsageCase("tdmrep.json: too large", FREE, tdmrep=all_reserved + " " * (1 << 20))
    yield UsageCase("tdmrep.json: deep", FREE, tdmrep="[" * 50_000)
    yield UsageCase("the header counts and not the file", FREE, (("tdm-reservation", "0"),), tdmrep=all_reserved)
    yield UsageCase("the meta counts and not the file", FREE, head=meta.format(0), tdmrep=all_reserved)
    nothing_reserved = all_reserved.replace("1", "0")
    yield UsageCase(
        "the header reserves what the file does not", TDM, (("tdm-reservation", "1"),), tdmrep=nothing_reserved
    )


def licence(inner: str, *, url: str = "/") -> str:
    return f'<rsl xmlns="https://rslstandard.org/rsl"><content url="{url}"><license>{inner}</license></content></rsl>'


def rsl() -> Iterator[UsageCase]:
    permits, prohibits = '<permits type="usage">{}</permits>', '<prohibits type="usage">{}</prohibits>'
    for name, (document, expected) in {
        "prohibits train-ai": (licence(prohibits.format("train-ai")), TRAIN),
        "prohibits ai-train": (licence(prohibits.format("ai-train")), TRAIN),
        "prohibits ai-all": (licence(prohibits.format("ai-all")), TRAIN),
        "prohibits all": (licence(prohibits.format("all")), "lddl."),
        "prohibits search": (licence(prohibits.format("search")), SEARCH),
        "prohibits several": (licence(prohibits.format("search ai-train")), "lddl."),
        "with commas": (licence(prohibits.format("search,ai-train")), "lddl."),
        "prohibits what is not known": (licence(prohibits.format("dreaming")), FREE),
        "permits all": (licence(permits.format("all")), FREE),
        "permits search alone": (licence(permits.format("search")), TRAIN),
        "permits training alone": (licence(permits.format("ai-train")), SEARCH),
        "permits what is not known": (licence(permits.format("dreaming")), "lddl."),
        "permits and prohibits": (licence(permits.format("all") + prohibits.format("ai-train")), TRAIN),
        "the order does not count": (licence(prohibits.format("ai-train") + permits.format("all")), TRAIN),
        "permits nothing": (licence(permits.format("")), "lddl."),
        "an empty licence": (licence(""), FREE),
        "other kinds of permits": (licence('<permits type="geo">DE</permits>'), FREE),
        "other kinds of prohibits": (licence('<prohibits type="user">commercial</prohibits>'), FREE),
        "upper case": (licence(prohibits.format("AI-TRAIN")), TRAIN),
        "free": (licence(permits.format("all") + '<payment type="free"/>'), FREE),
        "for attribution": (licence(permits.format("all") + '<payment type="attribution"/>'), FREE),
        "for money": (licence(permits.format("all") + '<payment type="purchase"/>'), "lddl."),
        "training for money": (licence(permits.format("ai-train") + '<payment type="training"/>'), "lddl."),
        "another path": (licence(prohibits.format("all"), url="/other"), FREE),
        "a pattern": (licence(prohibits.format("ai-train"), url="/p*"), TRAIN),
        "a whole address of another host": (licence(prohibits.format("all"), url="https://b.example/*"), FREE),
        "no address": (licence(prohibits.format("all"), url=""), FREE),
        "another vocabulary": (licence(prohibits.format("all")).replace("rslstandard", "other"), FREE),
        "a prefix": (
            licence(prohibits.format("ai-train"))
            .replace("</", "</r:")
            .replace("<", "<r:")
            .replace("<r:/r:", "</r:")
            .replace("xmlns=", "xmlns:r="),
            TRAIN,
        ),
        "no licence": ('<rsl xmlns="https://rslstandard.org/rsl"><content url="/"/></rsl>', FREE),
        "two offers, one free": (
            licence(
                f'{permits.format("ai-train")}<payment type="purchase"/></license><license>{permits.format("all")}'
            ),
            FREE,
        ),
        "cut": (licence(prohibits.format("ai-train"))[:-20], TRAIN),
        "not XML": ("License: no", FREE),
        "entities": ('<!DOCTYPE rsl [<!ENTITY a "ai-train">]>' + licence(prohibits.format("&a;")), FREE),
        "too large": (licence(prohibits.format("ai-train")) + " " * (1 << 20), FREE),
        "deep": ('<rsl xmlns="https://rslstandard.org/rsl">' + "<a>" * 100, FREE),
        "an address of AMP": (licence(prohibits.format("ai-train"), url="/p*&amp;x"), FREE),
    }.items():
        yield UsageCase(f"RSL: {name}", expected, rsl=document)
    own = f'<script type="{RSL_TYPE}">{licence(prohibits.format("ai-train"))}</script>'
    yield UsageCase("RSL in the page", TRAIN, head=own)
    yield UsageCase("RSL in a script of another type", FREE, head=own.replace(RSL_TYPE, "text/plain"))


def directives() -> Iterator[UsageCase]:
    for words, expected in {
        "noindex": SEARCH,
        "none": SEARCH,
        "noai": TRAIN,
        "noimageai": "..l..",
        "noai, noimageai": TRAIN,
        "noarchive": REPLAY,
        "nocache": REPLAY,
        "nosnippet": SNIPPET,
        "index, follow": FREE,
        "nofollow": FREE,
        "all": FREE,
        "NOAI": TRAIN,
        " noai ,  noindex ": "lddl.",
        "noindex noarchive": "ldlll",
        "noarchive, noindex": "ldlll",
        "max-snippet: 0, noai": TRAIN,
        "unavailable_after: 25 Jun 2010 15:00:00 PST, noarchive": REPLAY,
        "no-ai": FREE,
        "noaix": FREE,
        "": FREE,
        "googlebot: noindex": FREE,
        "webmill: noindex": SEARCH,
        "WEBMILL: noarchive": REPLAY,
        "*: noarchive": REPLAY,
        "robots: noai": TRAIN,
    }.items():
        yield UsageCase(f"X-Robots-Tag: {words}", expected, (("X-Robots-Tag", words),))
    for words, expected in {
        "noindex": SEARCH,
        "none": SEARCH,
        "noai": TRAIN,
        "noimageai": "..l..",
        "noarchive": REPLAY,
        "nosnippet": SNIPPET,
        "index, follow": FREE,
        "NoIndex": SEARCH,
        "noai,noindex": "lddl.",
        "": FREE,
        "revisit-after: 7 days, noai": TRAIN,
    }.items():
        yield UsageCase(f"meta robots: {words}", expected, head=f'<meta name="robots" content="{words}">')
    yield UsageCase("meta webmill", SEARCH, head='<meta name="webmill" content="noindex">')
    yield UsageCase("meta of another", FREE, head='<meta name="googlebot" content="noindex">')
    yield UsageCase("directives: meta in upper case", TRAIN, head="<META NAME=ROBOTS CONTENT=NOAI>")
    yield UsageCase("two metas", "lddl.", head="<meta name=robots content=noai><meta name=robots content=noindex>")
    yield UsageCase("directives: meta in a comment", FREE, head="<!-- <meta name=robots content=noindex> -->")
    yield UsageCase("directives: meta in a script", FREE, head='<script>"<meta name=robots content=noindex>"</script>')
    yield UsageCase("meta without an end", FREE, head="<meta name=robots content=noindex")
    yield UsageCase(
        "for another, then all", REPLAY, (("X-Robots-Tag", "otherbot: noindex"), ("X-Robots-Tag", "noarchive"))
    )
    yield UsageCase(
        "up to the next name", SEARCH, (("X-Robots-Tag", "otherbot: noarchive, nofollow, webmill: noindex"),)
    )
    yield UsageCase("after the name of another", FREE, (("X-Robots-Tag", "otherbot: nofollow, noindex"),))
    yield UsageCase("directives: a picture", "..d..", (("X-Robots-Tag", "noimageai"),), media_type="image/png")
    yield UsageCase("directives: a picture, all", TRAIN, (("X-Robots-Tag", "noai"),), media_type="image/png")
    yield UsageCase("directives: a PDF", SEARCH, (("X-Robots-Tag", "noindex"),), media_type="application/pdf")
    long = "otherword, " * 1000 + "noindex"
    yield UsageCase("a field that is too long", FREE, (("X-Robots-Tag", long),))


def prices() -> Iterator[UsageCase]:
    for price in ("USD 0.01", "EUR 1", "", "free", "USD", "USD -1", "USD 1e99", "usd 0.5", "USD 0.01, EUR 0.01"):
        yield UsageCase(f"402, crawler-price {price!r}", CLOSED, (("crawler-price", price),), status=402)
    yield UsageCase("402 without a price", CLOSED, status=402)
    yield UsageCase("a price that is not asked for", FREE, (("crawler-price", "USD 0.01"),))
    yield UsageCase("a charge that was not made", FREE, (("crawler-charged", "USD 0.01"),))
    yield UsageCase("403 is no price", FREE, (("crawler-price", "USD 0.01"),), status=403)


def conflicts() -> Iterator[UsageCase]:
    no, yes = ("Content-Usage", "train-ai=n"), ("Content-Usage", "train-ai=y")
    robots = "User-agent: *\nContent-Usage: train-ai={}\n"
    yield UsageCase("header allows, rule forbids", TRAIN, (yes,), robots=robots.format("n"))
    yield UsageCase("header forbids, rule allows", TRAIN, (no,), robots=robots.format("y"))
    yield UsageCase("both allow", FREE, (yes,), robots=robots.format("y"))
    yield UsageCase("header allows, noai forbids", TRAIN, (yes,), head="<meta name=robots content=noai>")
    yield UsageCase(
        "header allows search, noindex forbids", SEARCH, (("Content-Usage", "search=y"), ("X-Robots-Tag", "noindex"))
    )
    yield UsageCase("training allowed, mining reserved", TDM, (yes, ("tdm-reservation", "1")))
    yield UsageCase("mining allowed, training forbidden", TRAIN, (no, ("tdm-reservation", "0")))
    yield UsageCase("RSL allows, header forbids", TRAIN, (no,), rsl=licence('<permits type="usage">all</permits>'))
    yield UsageCase(
        "RSL forbids, header allows", TRAIN, (yes,), rsl=licence('<prohibits type="usage">ai-train</prohibits>')
    )
    every = (
        ("Content-Usage", "train-ai=n, search=n"),
        ("tdm-reservation", "1"),
        ("X-Robots-Tag", "noarchive, nosnippet"),
    )
    yield UsageCase("everything at once", "ldddl", every)
    yield UsageCase("disallowed whatever else is said", CLOSED, (yes,), robots="User-agent: *\nDisallow: /\n")
    yield replace(
        UsageCase("another path of the same site", FREE),
        path="/",
        robots="User-agent: *\nContent-Usage: /page train-ai=n\n",
    )
    yield UsageCase(
        "with a query", TRAIN, path="/page?a=1", robots="User-agent: *\nContent-Usage: /page?a train-ai=n\n"
    )
    yield UsageCase(
        "without the query", FREE, path="/page", robots="User-agent: *\nContent-Usage: /page?a train-ai=n\n"
    )
