"""The README's recipe, killed at random moments of crawl, publication and delivery, over several days.

What came, changed, moved and went is in the versions, in the feed, at the webhook and in the mail: nothing is lost, and
nothing is told twice but by a message with the same id.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import feedparser
import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.pipeline.recipe import ChangingSite, Recipe, told_of
from tests.pipeline.watched_site import HOST
from tests.published_pages import publish_pages
from tests.receivers import MailServer, WebhookReceiver, mail_server, webhook
from tests.thoroughness import WHOLE, each, kills
from webmill.infra.storage.local import LocalStorage
from webmill.publish.changes import list_changes
from webmill.testing import TestWeb

pytestmark = [needs_killer, pytest.mark.crash]
DAYS = 5 if WHOLE else 1
QUIET_DAYS = 10  # at most, until what went is noticed: not found twice
COMPONENT = "alerts"
Told = tuple[str, str, int]


@pytest.fixture
def hook() -> Iterator[WebhookReceiver]:
    with webhook() as receiver:
        yield receiver


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


def messages_of(hook: WebhookReceiver) -> list[tuple[str, bytes]]:
    return [(posted.id, posted.body) for posted in hook.taken]


def once(messages: list[tuple[str, bytes]]) -> list[bytes]:
    """The bodies, each id once. What came twice must be the same to the last byte."""
    bodies: dict[str, bytes] = {}
    for id_, body in messages:
        assert bodies.setdefault(id_, body) == body, f"{id_} came with two bodies"
    return [*bodies.values()]


def changes_of(bodies: list[bytes]) -> list[dict[str, Any]]:
    return [change for body in bodies for change in json.loads(body)["changes"]]


def mailed(mail: MailServer) -> Counter[tuple[str, str]]:
    """(kind, URL) of what was mailed, each id once."""
    texts = {one.id: one.part("plain") for one in mail.mails}
    kinds = {"NEW": "added", "CHANGED": "changed", "MOVED": "moved", "REMOVED": "removed"}
    found = (
        match for text in texts.values() for match in re.finditer(r"^([A-Z]+): [^\r\n]*\r?\n(\S+)", text, re.MULTILINE)
    )
    return Counter((kinds[match[1]], match[2]) for match in found)


def in_feed(address: str) -> Counter[tuple[str, str]]:
    """(kind, URL) of the entries of all pages of the feed."""
    found, path = Counter[tuple[str, str]](), f"{address}/feeds/changes.atom"
    while path:
        with urlopen(path) as reply:
            feed = feedparser.parse(reply.read())
        assert not feed.bozo
        for entry in feed.entries:
            url = next(part for part in re.findall(r"<p>(\S+?)(?: →|</p>)", entry.content[0].value))
            found[entry.tags[0].term, url] += 1
        path = next((link.href for link in feed.feed.links if link.rel == "next"), "")
    return found


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_recipe_tells_everything_however_often_it_is_killed(
    memory_folder: Path, hook: WebhookReceiver, mail: MailServer
) -> None:
    dice, changing = random.Random(seed(23)), ChangingSite(DAYS)
    wanted = kills(3)
    with TestWeb(hosts=1, sites={HOST: changing.site}) as web:
        recipe = Recipe(memory_folder, web, hook, mail)
        recipe.finish(recipe.init)
        recipe.run_to_its_end()
        assert not hook.taken, "of the first version nothing is told"
        for day in range(1, DAYS + 1):
            recipe.set_day(day)
            changing.change(day)
            kill_on_a_day(recipe, hook, dice, until=wanted * day // DAYS)
            recipe.run_to_its_end()
        day = DAYS
        while missing(changing, hook) and day < DAYS + QUIET_DAYS:
            day += 1
            recipe.set_day(day)
            recipe.run_to_its_end()
        recipe.finish(recipe.changes)
        recipe.finish(recipe.status)
        with recipe.served() as address:
            feed = in_feed(address)
    judge(recipe, changing, hook, mail, feed)


MOMENTS = [  # what a run says when a stage begins, and within how many seconds it is killed
    ("crawl: crawling", 2.0),
    ("index: indexing", 0.6),
    ("extract: making", 1.5),
    ("publish: publishing", 0.4),
    ("alert: telling", 0.2),
]
SENDING = len(MOMENTS)  # a message is under way
PATIENCE_FOR_A_POST = 15.0  # seconds; there may be nothing to send any more


def kill_on_a_day(recipe: Recipe, hook: WebhookReceiver, dice: random.Random, *, until: int) -> None:
    """Kill runs at random moments of their stages. Those of the crawl come first: what is done is not done again."""
    wanted = until - recipe.kills
    for moment in sorted(dice.choices(range(len(MOMENTS) + 1), k=wanted)):
        if moment == SENDING:
            recipe.run_and_kill(after=dice.uniform(0, 0.02), event=hook.next_post(give_up=PATIENCE_FOR_A_POST))
        else:
            line, within = MOMENTS[moment]
            recipe.run_and_kill(after=dice.uniform(0, within), line=line)
        print(f"{recipe.kills} kills, {len(hook.taken)} messages", flush=True)
    while recipe.kills < until:  # those that came between two stages
        recipe.run_and_kill(after=dice.uniform(0, 0.1), line=dice.choice([line for line, _ in MOMENTS[::4]]))


def missing(changing: ChangingSite, hook: WebhookReceiver) -> set[Told]:
    return changing.expected - {told_of(change) for change in changes_of(once(messages_of(hook)))}


def judge(
    recipe: Recipe, changing: ChangingSite, hook: WebhookReceiver, mail: MailServer, feed: Counter[tuple[str, str]]
) -> None:
    """Compare with what the site did, and what all four were told with each other."""
    told = changes_of(once(messages_of(hook)))
    here = Counter(told_of(change) for change in told if change["url"] != f"http://{HOST}/")
    lost = changing.expected - set(here)
    twice = {one: count for one, count in here.items() if count > 1}
    sent = len(hook.taken) + len(mail.mails)
    record(
        COMPONENT,
        "kill -9 of the recipe at random",
        injected=recipe.kills,
        acknowledged=len(changing.expected),
        lost=len(lost),
        duplicated=len(twice),
    )
    print(f"killed in {dict(recipe.killed_in)}")
    if WHOLE:
        assert {"crawl", "index", "extract", "publish", "alert"} <= set(recipe.killed_in)
    print(f"{recipe.kills} kills, {len(told)} changes told, {len(lost)} lost, {len(twice)} twice, {sent} messages")
    assert not lost
    assert not twice
    extra = {one for one in here if one not in changing.expected}
    assert {kind for kind, _, _ in extra} <= {"added"}, "a page that moved is new before its old address is looked at"
    assert all(path.startswith("/moved-") for _, path, _ in extra)
    by_url = Counter((change["kind"], change["url"]) for change in told)
    published = Counter((change.kind, change.url) for change in list_changes(LocalStorage(recipe.root)))
    assert by_url == published, "the versions"
    assert mailed(mail) == published
    assert feed == published
    ids = [change["id"] for change in told]
    assert len(ids) == len(set(ids))


# --- the outbox, at every durable call ---

NEWS = "https://news.example.org/"
VERSIONS = [
    {f"{NEWS}a": "A\nThe ferry leaves at noon.", f"{NEWS}b": "B\nThe mill."},
    {f"{NEWS}a": "A\nThe ferry leaves at one.", f"{NEWS}b": "B\nThe mill."},
    {f"{NEWS}a": "A\nThe ferry leaves at two.", f"{NEWS}c": "C\nA bridge."},
]
EXPECTED = Counter({("changed", f"{NEWS}a"): 2, ("removed", f"{NEWS}b"): 1, ("added", f"{NEWS}c"): 1})


def prepared(root: Path, hook: WebhookReceiver, mail: MailServer) -> None:
    """A collection with two versions that are to be told."""
    root.mkdir()
    rules = f'[[alert]]\nto = "{hook.address}"\n[[alert]]\nto = "mailto:me@example.org"\n'
    more = f'[alerts]\nallow_private = true\nmail_server = "{mail.address}"\n[http]\ncontact = "me@example.org"\n'
    (root / "webmill.toml").write_text(rules + more)
    publish_pages(root, VERSIONS[0])


def test_the_outbox_loses_nothing_when_it_is_killed_before_any_durable_call(
    memory_folder: Path, hook: WebhookReceiver, mail: MailServer
) -> None:
    count = lost = twice = 0
    with Stage("webmill.cli.main", under=memory_folder) as stage:
        prepared(memory_folder / "warm", hook, mail)
        assert stage.warm_up("run", memory_folder / "warm", "--stage", "alert").code == 0
        for at in range(1, 1000, each(7)):
            root = memory_folder / f"news-{at}"
            prepared(root, hook, mail)
            assert stage.run("run", root, "--stage", "alert").code == 0
            for version in VERSIONS[1:]:
                publish_pages(root, version)
            hook.taken.clear()
            mail.mails.clear()
            ended = stage.run("run", root, "--stage", "alert", at=at)
            assert stage.run("run", root, "--stage", "alert").code == 0
            told = changes_of(once(messages_of(hook)))
            here = Counter((change["kind"], change["url"]) for change in told)
            lost += (EXPECTED - here).total() + (EXPECTED - mailed(mail)).total()
            twice += (here - EXPECTED).total() + (mailed(mail) - EXPECTED).total()
            count += ended.killed
            if not ended.killed:
                break
    numbers = {"acknowledged": 2 * EXPECTED.total() * count, "lost": lost, "duplicated": twice}
    record(COMPONENT, "kill -9 before a durable call", injected=count, **numbers)
    assert (lost, twice) == (0, 0)


BROKEN = """
import os, sys
from webmill.cli.main import main
from webmill.pipeline.alerts import outbox

def forgotten(self, delivery, send, report):
    delivery.ack()
    os.kill(os.getpid(), 9)

outbox.TargetOutbox._deliver_one = forgotten
sys.argv = ["webmill", "run", sys.argv[1], "--stage", "alert"]
main()
"""


def test_an_outbox_that_forgets_before_it_sends_is_seen(
    memory_folder: Path, hook: WebhookReceiver, mail: MailServer
) -> None:
    """The control: the same check sees what is lost by one that breaks its promise."""
    root = memory_folder / "news"
    prepared(root, hook, mail)
    run = [sys.executable, "-m", "webmill", "run", str(root), "--stage", "alert"]
    subprocess.run(run, check=True, capture_output=True)
    publish_pages(root, VERSIONS[1])
    ended = subprocess.run([sys.executable, "-c", BROKEN, str(root)], check=False, env=os.environ)
    assert ended.returncode == -signal.SIGKILL
    subprocess.run(run, check=True, capture_output=True)
    here = Counter((change["kind"], change["url"]) for change in changes_of(once(messages_of(hook))))
    lost = Counter({("changed", f"{NEWS}a"): 1}) - here
    record(
        COMPONENT,
        "a message is forgotten before it is sent",
        injected=1,
        acknowledged=1,
        lost=lost.total(),
        control=True,
    )
    assert lost


def test_the_recipe_is_the_one_of_the_readme() -> None:
    from tests.pipeline.recipe import recipe

    init, run, *_ = recipe()
    assert init == ["webmill", "init", "news/", f"http://{HOST}/", "--contact", "me@example.org"]
    assert run == ["webmill", "run", "news/", "--every", "1d"]
