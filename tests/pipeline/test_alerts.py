"""Rules choose changes of new versions, outboxes keep them until they are delivered; real servers take them."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.published_pages import publish_pages
from tests.receivers import MailServer, WebhookReceiver, mail_server, webhook
from tests.unit.cli.command import started, webmill
from webmill.errors import Misconfigured
from webmill.infra.retry import BackoffPolicy
from webmill.pipeline.alerts.run import AlertReport, next_alert, register_targets, retry_alerts, send_alerts
from webmill.settings import AlertsSettings, HttpSettings, Settings
from webmill.settings.alerts_section import parse_rules

NEWS, SHOP = "https://news.example.org/", "https://shop.example.com/"
FIRST = {f"{NEWS}a": "A\nThe ferry leaves at noon.", f"{SHOP}b": "B\nThe price is ten.", f"{NEWS}c": "C\nThe mill."}
SECOND = {
    f"{NEWS}a": "A\nThe ferry leaves at one.",
    f"{SHOP}b": "B\nThe price is twelve.",
    f"{NEWS}d": "<D> & co\nA bridge is built.",
}
ALL = [("added", f"{NEWS}d"), ("changed", f"{NEWS}a"), ("changed", f"{SHOP}b"), ("removed", f"{NEWS}c")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "news").mkdir()
    return tmp_path / "news"


@pytest.fixture
def hook() -> Iterator[WebhookReceiver]:
    with webhook() as receiver:
        yield receiver


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def rules(*tables: dict[str, Any], **given: Any) -> Settings:
    alerts = AlertsSettings(rules=parse_rules([*tables]), allow_private=True, **{"retry_wait": 100.0, **given})
    return Settings(alerts=alerts, http=HttpSettings(contact="watch@example.org"))


def told(receiver: WebhookReceiver) -> list[tuple[str, str]]:
    changes = [change for posted in receiver.taken for change in posted.json["changes"]]
    return sorted((change["kind"], change["url"]) for change in changes)


def tell(root: Path, settings: Settings, *, clock: Clock | None = None) -> AlertReport:
    """Publish two versions, of which the second is to be told."""
    publish_pages(root, FIRST)
    register_targets(root, settings)
    publish_pages(root, SECOND)
    return send_alerts(root, settings, clock=clock or time.time)


# --- what is told ---


def test_a_webhook_is_told_every_change_once_with_links(root: Path, hook: WebhookReceiver) -> None:
    settings = rules({"to": hook.address})
    report = tell(root, settings)
    assert told(hook) == ALL
    assert (report.rejected, report.targets[0].sent, report.targets[0].chosen) == (0, 1, 4)
    (posted,) = hook.taken
    said = posted.json
    assert (said["id"], said["collection"], said["digest"]) == (posted.id, "news", "run")
    assert said["counts"] == {"added": 1, "changed": 2, "removed": 1}
    change = next(one for one in said["changes"] if one["url"] == f"{SHOP}b")
    assert (change["title"], change["removed"], change["added"]) == ("B", "The price is ten.", "The price is twelve.")
    assert change["links"]["diff"].startswith("http://127.0.0.1:8080/versions/diff?to=00000002-")
    assert change["links"]["archived"] == f"http://127.0.0.1:8080/web/20261118120000/{SHOP}b"
    assert send_alerts(root, settings).targets[0].sent == 0
    assert len(hook.taken) == 1


def test_mail_can_be_read_and_hostile_titles_are_escaped(root: Path, mail: MailServer) -> None:
    tell(root, rules({"to": "mailto:me@example.org"}, mail_server=mail.address))
    (got,) = mail.mails
    assert got.message["Subject"] == "news: 1 new, 2 changed, 1 removed"
    assert got.sender == "watch@example.org"
    text, html = got.part("plain"), got.part("html")
    for words in ("NEW: <D> & co", f"{SHOP}b", "- The price is ten.", "+ The price is twelve.", "/versions/diff?to="):
        assert words in text
    assert "&lt;D&gt; &amp; co" in html
    assert "<D>" not in html


def test_rules_choose_by_query_and_kind_before_or_after_the_change(root: Path) -> None:
    chosen = {
        "site:example.com": [("changed", f"{SHOP}b")],
        '"leaves at noon"': [("changed", f"{NEWS}a")],
        '"leaves at one"': [("changed", f"{NEWS}a")],
        "mill": [("removed", f"{NEWS}c")],
        "site:example.org -ferry": [("added", f"{NEWS}d"), ("removed", f"{NEWS}c")],
        "zeppelin": [],
    }
    with webhook() as hook:
        tell(root, rules(*({"to": f"{hook.address}/{number}", "match": match} for number, match in enumerate(chosen))))
    for number, (match, expected) in enumerate(chosen.items()):
        here = WebhookReceiver(taken=[posted for posted in hook.taken if posted.path == f"/hook/{number}"])
        assert told(here) == expected, match


def test_a_change_that_two_rules_of_a_target_choose_is_told_once(root: Path, hook: WebhookReceiver) -> None:
    here = {"to": hook.address}
    tell(root, rules({**here, "match": "price"}, {**here, "match": "site:example.com"}, {**here, "kinds": ["removed"]}))
    assert told(hook) == [("changed", f"{SHOP}b"), ("removed", f"{NEWS}c")]


def test_what_was_there_when_a_rule_is_new_is_not_told(root: Path, hook: WebhookReceiver) -> None:
    publish_pages(root, FIRST)
    publish_pages(root, SECOND)
    send_alerts(root, rules({"to": hook.address}))
    assert not hook.taken
    publish_pages(root, FIRST)
    send_alerts(root, rules({"to": hook.address}))
    assert len(told(hook)) == 4


def test_a_program_is_told_all_and_a_person_the_first_hundred(
    root: Path, hook: WebhookReceiver, mail: MailServer
) -> None:
    settings = rules({"to": hook.address}, {"to": "mailto:me@example.org"}, mail_server=mail.address)
    publish_pages(root, FIRST)
    register_targets(root, settings)
    publish_pages(root, FIRST | {f"{NEWS}{number:04}": f"Page {number}\nNumber {number}" for number in range(2_350)})
    send_alerts(root, settings)
    assert [len(posted.json["changes"]) for posted in hook.taken] == [100] * 23 + [50]
    assert len(set(told(hook))) == 2_350
    (got,) = mail.mails
    assert got.message["Subject"] == "news: 2,350 new"
    assert "… and 2,250 more" in got.part("plain")


# --- digests ---


def test_digests_are_kept_across_runs_and_sent_when_their_time_has_come(root: Path, hook: WebhookReceiver) -> None:
    here, clock = hook.address, Clock(1_800_000_000.0)
    settings = rules({"to": f"{here}/hour", "digest": "hour"}, {"to": f"{here}/day", "digest": "day"})
    tell(root, settings, clock=clock)
    assert not hook.taken
    assert next_alert(root, settings) == 1_800_000_000.0 // 3600 * 3600 + 3600
    publish_pages(root, FIRST)
    clock.now += 60
    send_alerts(root, settings, clock=clock)
    assert not hook.taken
    clock.now += 3600
    send_alerts(root, settings, clock=clock)
    (posted,) = hook.taken
    assert posted.path == "/hook/hour"
    assert len(posted.json["changes"]) == 8
    clock.now += 86400
    send_alerts(root, settings, clock=clock)
    assert [one.path for one in hook.taken] == ["/hook/hour", "/hook/day"]
    assert next_alert(root, settings) is None


def test_a_digest_that_no_rule_has_any_more_is_sent_at_once(root: Path, hook: WebhookReceiver) -> None:
    tell(root, rules({"to": hook.address, "digest": "day"}))
    send_alerts(root, rules({"to": hook.address}))
    assert told(hook) == ALL


# --- failures ---


def test_what_fails_is_sent_again_in_order_with_growing_waits_and_given_up_at_last(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webmill.pipeline.alerts.outbox.AT_ONCE", BackoffPolicy(attempts=1))
    clock = Clock(time.time())
    with webhook(WebhookReceiver([500] * 100)) as hook:
        settings = rules({"to": hook.address}, attempts=3)
        report = tell(root, settings, clock=clock)
        assert (report.rejected, report.targets[0].waiting) == (1, 1)
        assert "status 500" in report.targets[0].reason
        publish_pages(root, FIRST)
        asked = len(hook.refused)
        report = send_alerts(root, settings, clock=clock)
        assert len(hook.refused) == asked, "the first waits, and the second waits for the first"
        assert (report.rejected, report.targets[0].waiting) == (0, 2)
        for wait in (101.0, 201.0):
            clock.now += wait
            report = send_alerts(root, settings, clock=clock)
        assert report.targets[0].dead == 1, "three attempts"
        hook.statuses.clear()
        clock.now += 401.0
        send_alerts(root, settings, clock=clock)
        assert [posted.json["changes"][0]["version"][:8] for posted in hook.taken] == ["00000003"]


def test_a_server_that_is_down_for_a_moment_costs_nothing(root: Path) -> None:
    with webhook(WebhookReceiver([503, 503])) as hook:
        report = tell(root, rules({"to": hook.address}))
    assert report.rejected == 0
    assert told(hook) == ALL
    assert {posted.id for posted in hook.refused} == {hook.taken[0].id}


def test_one_target_that_fails_does_not_hold_back_another(root: Path, hook: WebhookReceiver) -> None:
    report = tell(root, rules({"to": "mailto:me@example.org"}, {"to": hook.address}))
    assert told(hook) == ALL
    assert "mail_server" in report.targets[0].reason
    assert report.rejected == 1


# --- the command ---


def collection(root: Path, *tables: dict[str, Any]) -> None:
    """`webmill init`, with rules."""
    ended = webmill("init", root, NEWS, "--contact", "watch@example.org")
    assert ended.code == 0, ended.err
    file = root / "webmill.toml"
    lines = ["[alerts]", "allow_private = true", "attempts = 1"]
    text = file.read_text().replace("[alerts]", "\n".join(lines))
    for table in tables:
        text += "\n[[alert]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    file.write_text(text)


def test_the_command_tests_lists_and_retries_without_showing_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webmill.pipeline.alerts.outbox.AT_ONCE", BackoffPolicy(attempts=1))
    root, token = tmp_path / "news", "T0KEN"
    with webhook() as hook:
        collection(root, {"to": f"{hook.address}/{token}", "match": "price", "secret": token})
        ended = webmill("alerts", "test", root)
        assert ended.code == 0, ended.err
        assert hook.taken[0].json["is_test"] is True
        assert {change["kind"] for change in hook.taken[0].json["changes"]} == {"added", "changed", "moved", "removed"}
        hook.taken.clear()
        hook.statuses = [500]
        publish_pages(root, FIRST)
        assert webmill("run", root, "--stage", "alert").code == 0
        publish_pages(root, SECOND)
        said = [ended := webmill("run", root, "--stage", "alert")]
        assert ended.code == 3, ended.err
        said.append(ended := webmill("problems", root))
        assert b"alert: Messages to http://127.0.0.1" in ended.out
        assert b"were given up" in ended.out
        said.append(ended := webmill("status", root))
        assert b"0 waiting, 1 given up" in ended.out
        said.append(ended := webmill("alerts", "list", root))
        assert b"1 given up" in ended.out
        assert b"status 500" in ended.out
        said += [
            webmill("alerts", "list", root, "--json"),
            webmill("dead", "list", root),
            webmill("status", root, "--json"),
        ]
        said.append(ended := webmill("alerts", "retry", root))
        assert ended.code == 0, ended.err
        assert told(hook) == [("changed", f"{SHOP}b")]
        assert webmill("problems", root).code == 0
    for ended in said:
        assert token not in ended.err
        assert token.encode() not in ended.out


def test_a_collection_of_somebody_else_sends_nothing(
    tmp_path: Path, hook: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEBMILL_TRUST", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    publish_pages(theirs, FIRST)
    (theirs / "webmill.toml").write_text(f'[[alert]]\nto = "{hook.address}"\n')
    for command in (
        ("run", theirs),
        ("alerts", "test", theirs),
        ("alerts", "retry", theirs),
        ("alerts", "list", theirs),
    ):
        ended = webmill(*command)
        assert ended.code == 1, ended.err
        assert "webmill trust" in ended.err
        assert f"{theirs}/webmill.toml:1: [alerts] rules" in ended.err
    assert not hook.taken


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('[[alert]]\nmatch = "a"', "needs to"),
        ('[[alert]]\nto = "me@example.org"', "not an address"),
        ('[[alert]]\nto = "mailto:a@b"\nmatches = "x"', "did you mean match?"),
        ('[[alert]]\nto = "mailto:a@b"\nkinds = ["new"]', "kinds[0]: Invalid enum value 'new'"),
        ('[[alert]]\nto = "mailto:a@b"\ndigest = "week"', "digest: Invalid enum value 'week'"),
        ("[alert]\nto = 'mailto:a@b'", "[[alert]]"),
        ("alert = 3", "[[alert]]"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_line_and_what_is_right(root: Path, table: str, message: str) -> None:
    (root / "webmill.toml").write_text(f"{table}\n")
    ended = webmill("alerts", "list", root)
    assert ended.code == 1
    assert message in ended.err
    assert "webmill.toml" in ended.err


def test_rules_can_come_from_the_environment(
    root: Path, hook: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBMILL_ALERTS_RULES", json.dumps([{"to": hook.address}]))
    monkeypatch.setenv("WEBMILL_ALERTS_ALLOW_PRIVATE", "true")
    ended = webmill("alerts", "test", root)
    assert ended.code == 0, ended.err
    assert len(hook.taken) == 1


def test_targets_of_one_name_have_one_address(root: Path) -> None:
    settings = rules({"to": "mailto:a@b.test", "name": "x"}, {"to": "mailto:c@d.test", "name": "x"})
    with pytest.raises(Misconfigured, match="different addresses"):
        send_alerts(root, settings)


def test_a_target_that_has_a_name_keeps_its_messages_when_its_address_changes(root: Path) -> None:
    with webhook(WebhookReceiver([500] * 9)) as old, webhook() as new:
        tell(root, rules({"to": old.address, "name": "desk"}))
        retry_alerts(root, rules({"to": new.address, "name": "desk"}))
    assert told(new) == ALL


@pytest.mark.slow
def test_a_run_that_waits_for_its_next_time_sends_meanwhile_what_failed(tmp_path: Path) -> None:
    root = tmp_path / "news"
    with webhook(WebhookReceiver([500] * 3)) as hook:  # all attempts of the first run
        collection(root, {"to": hook.address})
        file = root / "webmill.toml"
        file.write_text(file.read_text().replace("attempts = 1", 'attempts = 9\nretry_wait = "1s"', 1))
        publish_pages(root, FIRST)
        assert webmill("run", root, "--stage", "alert").code == 0
        publish_pages(root, SECOND)
        process = started("run", root, "--stage", "alert", "--every", "1d")
        deadline = time.monotonic() + 100
        try:
            while not hook.taken:
                assert time.monotonic() < deadline, process.poll()
                time.sleep(0.05)
        finally:
            process.send_signal(signal.SIGINT)
            err = process.communicate(timeout=60)[1].decode()
    assert told(hook) == ALL
    assert "next run in 23:59:" in err
