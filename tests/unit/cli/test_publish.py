"""`webmill publish`: what the commands say, and with which exit code."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.boards.publishing import MemoryBoardReader, boards, cycle, working
from tests.unit.cli.command import Ended, commands_of, started, webmill
from tests.unit.infra.test_storage_s3 import CarelessStore, faulty  # noqa: F401  a fixture
from tests.unit.publish.publications import closure
from webmill.boards.board_list import Board
from webmill.boards.orchestrator import start_run
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.local import LocalStorage
from webmill.publish.publication import PublishOptions

SITE_MAP = b'{"sources": [{"source": "a", "url": "http://closed.test/list", "facets": {"team": "x"}}]}'
CONTACT = "--contact=me@example.org"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection with three versions: one notice edited, one gone; then a board fails."""
    root = tmp_path_factory.mktemp("made") / "notices"
    storage, queue, reader = LocalStorage(root), open_queue(root), MemoryBoardReader(boards(4))
    cycle(storage, queue, reader)
    reader.texts["Seoul/d001/notice"]["0"] = "edited"
    del reader.texts["Seoul/d002/notice"]["1"]
    cycle(storage, queue, reader)
    reader.failing = {"Seoul/d000/notice": True}
    cycle(storage, queue, reader, options=PublishOptions(facets=("campus",)))
    queue.close()
    return root


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "notices"))


def open_queue(root: Path) -> SqliteQueue:
    (root / "publish").mkdir(parents=True, exist_ok=True)
    return SqliteQueue(root / "publish" / "queue.sqlite", max_attempts=3)


def publish(*arguments: str | Path) -> Ended:
    return webmill("publish", *arguments)


def objects(ended: Ended) -> list[dict[str, object]]:
    return [json.loads(line) for line in ended.lines]


@pytest.mark.parametrize("command", commands_of("publish"), ids="-".join)
def test_help_fits_80_columns_and_has_an_example(command: tuple[str, ...]) -> None:
    ended = webmill(*command, "--help")
    lines = ended.out.decode().splitlines()
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert "Example" in ended.out.decode() or command[:2] == ("publish", "dead")


def test_versions_are_listed_shown_and_compared(place: Path) -> None:
    listed = publish("list", place)
    assert [line.split()[0][:8] for line in listed.out.decode().splitlines()] == ["00000001", "00000002", "00000003"]
    assert listed.out.decode().splitlines()[-1].endswith("live")
    assert [version["count"] for version in objects(publish("list", place, "--json"))] == [12, 11, 11]
    assert b"11: 8 fresh, 3 stale" in publish("show", place).out
    shown = objects(publish("show", place, "2", "--json"))[0]
    assert (shown["changed"], shown["removed"]) == (1, 1)
    errors = objects(publish("show", place, "--errors", "--json"))
    assert {error["source"] for error in errors} == {"Seoul/d000/notice"}
    assert b"stale         3  Seoul/d000/notice  3 stale for " in publish("show", place, "--sources").out
    assert publish("show", place, "--item", "Seoul/d001/notice/0").out == b'{"text":"edited"}\n'
    assert len(publish("show", place, "previous", "--items").lines) == 11
    reported = publish("diff", place, "1", "live")
    assert [line[:2].decode() + line.split()[1].decode() for line in reported.lines] == [
        "~ Seoul/d001/notice/0",
        "- Seoul/d002/notice/1",
    ]
    assert reported.err == "0 added, 1 changed, 0 relabelled, 1 removed\n"
    changes = objects(publish("diff", place, "1", "live", "--json"))
    assert [change["change"] for change in changes] == ["changed", "removed"]


def test_what_is_not_there_is_a_sentence(place: Path, tmp_path: Path) -> None:
    for arguments in (
        ("show", place, "99"),
        ("diff", place, "1", "nonsense"),
        ("rollback", place, "00000009-00000000"),
        ("show", place, "--item", "../../etc/passwd"),
        ("list", tmp_path / "nowhere"),
        ("gc", tmp_path / "nowhere"),
        ("dead", "list", tmp_path),
        ("run", place, "--site-map", tmp_path / "none.json", CONTACT),
        ("work", place),
    ):
        ended = publish(*arguments)
        assert ended.code in (1, 2), arguments
        assert "Traceback" not in ended.err
        assert not (tmp_path / "nowhere").exists()


def test_rollback_gc_and_verify_do_what_they_say(place: Path) -> None:
    storage = LocalStorage(place)
    before = closure(storage)
    assert publish("rollback", place, "1").code == 0
    assert len(closure(storage)) == 12
    assert "is already live" in publish("rollback", place, "1").err
    assert publish("rollback", place, "3", "--json").code == 0
    assert closure(storage) == before
    dry = publish("gc", place, "--keep", "1", "--grace", "0s", "--dry-run", "--json")
    would = objects(dry)[0]
    assert (len(would["kept"]), len(would["retired"]), would["trashed"]) == (1, 2, 2)  # type: ignore[arg-type]
    assert len(publish("list", place).lines) == 3
    assert objects(publish("gc", place, "--keep", "1", "--grace", "0s", "--json"))[0]["trashed"] == 2
    assert len(publish("list", place).lines) == 1
    assert closure(storage) == before
    assert publish("verify", place, "--read-data").code == 0


def test_verify_names_a_damaged_blob_and_repairs_it_from_a_copy_c05(place: Path, tmp_path: Path) -> None:
    storage, copy = LocalStorage(place), LocalStorage(tmp_path / "copy")
    for stat in storage.list("blobs/"):
        copy.write(stat.key, storage.read(stat.key))
    key = next(iter(storage.list("blobs/"))).key
    data = (place / key).read_bytes()
    (place / key).write_bytes(data[:-1] + b"?")  # the same length: nothing but its hash tells
    assert publish("verify", place).code == 0
    found = publish("verify", place, "--read-data")
    assert found.code == 1
    assert key.encode() in found.out
    assert b"index/all.json Seoul/" in found.out
    assert publish("verify", place, "--read-data", "--repair").code == 1  # nobody has it
    mended = publish("verify", place, "--read-data", "--repair", "--from", tmp_path / "copy", "--json")
    assert mended.code == 0
    assert objects(mended)[0]["repaired"] == [key]
    assert publish("verify", place, "--read-data").code == 0


def test_a_damaged_pointer_is_told_and_written_anew_only_when_asked(place: Path) -> None:
    before = (place / "latest.json").read_bytes()
    for damage in (b"{x", before.replace(b"00000003", b"00000002"), None):
        (place / "latest.json").unlink()
        if damage is not None:
            (place / "latest.json").write_bytes(damage)
        found = publish("verify", place)
        assert (found.code, found.out.split(b"\t")[:2]) == (1, [b"latest.json", b"bad_pointer"])
        assert (place / "latest.json").exists() == (damage is not None)
        assert publish("verify", place, "--repair").code == 0
        assert (place / "latest.json").read_bytes() == before


def test_a_lost_history_is_told_and_nothing_is_published_over_it_unasked(tmp_path: Path) -> None:
    root, site_map, reader = tmp_path / "d", site_map_of("a", "b"), town_of("a", "b")
    assert run_with(reader, root, site_map).code == 0
    shutil.rmtree(root / "snapshots")
    lost = publish("verify", root)  # the pointer is there, and what it names is not
    assert (lost.code, b"broken_history" in lost.out) == (1, True)
    (root / "latest.json").unlink()
    lost = publish("verify", root)
    assert (lost.code, b"broken_history" in lost.out) == (1, True)
    assert "from a copy" in lost.err
    (root / "documents").mkdir()
    (root / "documents" / "a.jsonl").write_text('{"url": "http://a.test/", "text": "a"}\n')
    for _ in range(2):  # a refusal leaves nothing by which the next one is deceived
        for refused in (run_with(reader, root, site_map), publish("documents", root), publish("gc", root)):
            assert (refused.code, "from a copy" in refused.err) == (1, True)
    assert not (root / "latest.json").exists()
    assert run_with(reader, root, site_map, "--force").code == 0
    assert len(closure(LocalStorage(root))) == 6
    assert publish("verify", root, "--read-data").code == 0


def test_a_damaged_index_comes_back_from_a_copy_or_by_the_way_that_is_named(place: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(place, tmp_path / "copy"))
    live = json.loads((place / "latest.json").read_bytes())["version"]
    index = place / "snapshots" / live / "index" / "all.json"
    index.write_bytes(b"{}")
    reported = publish("verify", place, "--repair")
    assert reported.code == 1
    assert publish("verify", place, "--repair", "--from", copy).code == 0
    assert publish("verify", place).code == 0
    index.unlink()
    reported = publish("verify", place, "--repair")
    assert reported.code == 1
    (line,) = [line for line in reported.err.splitlines() if "rollback" in line]
    command = line.partition("`webmill ")[2].partition("`")[0].split()
    assert webmill(*command).code == 0
    reader = MemoryBoardReader(boards(4))
    queue = open_queue(place)
    cycle(LocalStorage(place), queue, reader)
    queue.close()
    assert closure(LocalStorage(place)) == reader.content()
    assert "the live version is complete" in publish("verify", place).err


def test_dead_jobs_are_listed_requeued_and_dropped(place: Path) -> None:
    (letter,) = objects(publish("dead", "list", place, "--json"))
    assert letter["reason"] == "HTTP 500"
    assert b"Seoul/d000/notice" in publish("dead", "list", place).out
    assert publish("dead", "requeue", place).code == 2
    for command in ("drop", "requeue"):
        unknown = publish("dead", command, place, "nosuch\x1b[2Jid")
        assert (unknown.code, "\x1b" in unknown.err) == (1, False)
        assert "no failed task nosuch" in unknown.err
    assert publish("dead", "requeue", place, str(letter["id"])).err == "1 task requeued\n"
    assert publish("dead", "list", place).err == "no failed tasks\n"
    queue = open_queue(place)
    with queue.consume() as consumer:
        delivery = consumer.receive(timeout=60)
        assert delivery
        delivery.bury("again")
    queue.close()
    assert publish("dead", "drop", place, "--all").err == "1 task dropped\n"


def test_a_store_that_ignores_conditions_is_refused_q14(
    faulty: CarelessStore,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "map.json").write_bytes(SITE_MAP)
    for command in (("run", tmp_path, "--site-map", tmp_path / "map.json"), ("work", tmp_path)):
        ended = publish(*command, CONTACT, "--storage", faulty.url)
        assert ended.code == 1
        assert "If-None-Match" in ended.err
    assert [key for key in faulty.values if "snapshots" in key] == []


def test_somebody_must_be_named_who_can_be_asked(tmp_path: Path) -> None:
    (tmp_path / "map.json").write_bytes(SITE_MAP)
    ended = publish("run", tmp_path / "d", "--site-map", tmp_path / "map.json")
    assert ended.code == 1
    assert "--contact" in ended.err


def test_a_run_waits_for_no_other_one(tmp_path: Path) -> None:
    """Another machine's run is under way: this one says so and leaves."""
    (tmp_path / "map.json").write_bytes(SITE_MAP)
    root = tmp_path / "d"
    queue = open_queue(root)
    plan = start_run(LocalStorage(root), queue, boards(1))
    queue.close()
    ended = publish("run", root, "--site-map", tmp_path / "map.json", CONTACT, "--workers", "0")
    assert ended.code == 1
    assert plan.run in ended.err


def run_with(reader: MemoryBoardReader, root: Path, site_map: bytes, *flags: str) -> Ended:
    """`publish run`, with the town's boards read by workers beside it."""
    (root.parent / "map.json").write_bytes(site_map)
    queue = open_queue(root)
    try:
        with working(LocalStorage(root), queue, reader):
            return publish("run", root, "--site-map", root.parent / "map.json", CONTACT, "--workers", "0", *flags)
    finally:
        queue.close()


def site_map_of(*sources: str, **broken: dict[str, object]) -> bytes:
    """These and `broken`: more keys of an entry, by source."""
    entries = [{"source": name, "url": f"http://{name}.test/"} for name in sources]
    return json.dumps({"sources": [one | broken.get(one["source"], {}) for one in entries]}).encode()


def town_of(*sources: str) -> MemoryBoardReader:
    return MemoryBoardReader([Board(source=name, board=name, url=f"http://{name}.test/") for name in sources])


def test_a_mistake_in_the_site_map_removes_nothing_and_is_told(tmp_path: Path) -> None:
    root, reader = tmp_path / "d", town_of("a", "b", "c", "d", "e", "f")
    assert run_with(reader, root, site_map_of(*reader.texts)).code == 0
    items = closure(LocalStorage(root))
    ended = run_with(reader, root, site_map_of(*reader.texts, b={"selectors": {"item": "tr[["}}))
    assert ended.code == 3
    assert "$.sources[1].selectors.item" in ended.err
    assert closure(LocalStorage(root)) == items
    (error,) = objects(publish("show", root, "--errors", "--json"))
    assert (error["source"], error["stage"], "tr[[" in str(error["message"])) == ("b", "site_map", True)
    sources = {one["source"]: one for one in objects(publish("show", root, "--sources", "--json"))}
    assert (sources["b"]["status"], sources["b"]["stale"]) == ("stale", 3)
    assert run_with(reader, root, site_map_of(*reader.texts)).code == 0
    removed_on_purpose = run_with(reader, root, site_map_of("a", "c", "d", "e", "f"))
    assert removed_on_purpose.code == 0
    assert len(closure(LocalStorage(root))) == 15


def test_an_entry_that_does_not_say_what_it_was_is_told_too(tmp_path: Path) -> None:
    root, reader = tmp_path / "d", town_of("a")
    ended = run_with(
        reader, root, b'{"sources": [{"source": "a", "url": "http://a.test/"}, {"url": "http://b.test/"}]}'
    )
    assert ended.code == 3
    (error,) = objects(publish("show", root, "--errors", "--json"))
    assert (error["stage"], error["source"]) == ("site_map", None)


def test_every_board_is_among_the_sources_also_one_on_which_nothing_was_found(tmp_path: Path) -> None:
    root, reader = tmp_path / "d", town_of("a", "b", "c")
    reader.texts["b"] = {}
    reader.failing = {"c": False}
    assert run_with(reader, root, site_map_of("a", "b", "c")).code == 3
    sources = [
        (one["source"], one["status"], one["items"]) for one in objects(publish("show", root, "--sources", "--json"))
    ]
    assert sources == [("a", "fresh", 3), ("b", "fresh", 0), ("c", "missing", 0)]


HOSTILE = "\x1b]0;owned\x07\x9b2J\x7f"


def test_what_strangers_wrote_cannot_command_a_terminal(tmp_path: Path) -> None:
    root, name = tmp_path / "d", f"b{HOSTILE}"
    reader = town_of("a", name)
    reader.texts["a"] = {f"row{HOSTILE}": f"text{HOSTILE}"}
    entries = [{"source": source, "url": "http://a.test/"} for source in reader.texts]
    broken = {"source": f"c{HOSTILE}", "url": "http://c.test/", "selectors": {"item": f"tr[[{HOSTILE}"}}
    ended = [run_with(reader, root, json.dumps({"sources": [*entries, broken]}).encode(), "--json")]
    reader.failing = {name: False}
    ended.append(run_with(reader, root, json.dumps({"sources": entries}).encode()))
    cases = ["show --errors", "show --sources", "show --items", "show 1 --errors", "diff 1 2", "diff 2 1", "show"]
    for case in cases:
        command, *arguments = case.split()
        ended += [publish(command, root, *arguments, *form) for form in ((), ("--json",))]
    ended.append(publish("show", root, "--item", f"a/row{HOSTILE}"))
    assert json.loads(ended[-1].out) == {"text": f"text{HOSTILE}"}
    for stat in LocalStorage(root).list("blobs/"):
        (root / stat.key).unlink()
    ended.append(publish("verify", root))
    assert b"a/row\\x1b" in ended[-1].out
    for one in ended:
        assert not set("\x1b\x07\x9b\x7f") & set(one.out.decode() + one.err), one


def test_a_refusal_names_the_flag_and_is_no_failure_to_start(tmp_path: Path) -> None:
    root = tmp_path / "d"
    for pages in (20, 10):
        file = root / "documents" / "pages.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            "".join(json.dumps({"url": f"http://a.test/{n}", "text": f"page {n}"}) + "\n" for n in range(pages))
        )
        ended = publish("documents", root)
    assert ended.code == 1
    assert ended.err.startswith("refused: 10 items instead of 20")
    assert "--force" in ended.err
    assert publish("documents", root, "--force").code == 0


def wait_for(condition: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.mark.slow
def test_runs_on_a_schedule_end_when_told_and_workers_of_others_do_their_jobs(tmp_path: Path) -> None:
    """A board at a closed port: published is nothing, and the command goes on to the next tick."""
    (tmp_path / "map.json").write_bytes(SITE_MAP)
    root = tmp_path / "d"
    flags = (CONTACT, "--allow-private", "--resolve", "closed.test=127.0.0.1:1", "--delay", "0.01s")
    queue = open_queue(root)
    command = ("publish", "run", root, "--site-map", tmp_path / "map.json", "--every", "1s", "--workers", "0", *flags)
    scheduler = started("-q", *command, "--json", env=None)
    worker = started("-q", "publish", "work", root, *flags)
    try:
        assert scheduler.stdout
        refused = [json.loads(scheduler.stdout.readline()) for _ in range(2)]
        assert all("found no items" in outcome["refused"] for outcome in refused)
        assert refused[0]["run"] != refused[1]["run"]
        assert all(outcome["failed"] == ["a"] for outcome in refused)
        wait_for(lambda: len([*queue.dead_letters()]) == 1, scheduler)
        for process in (scheduler, worker):
            process.send_signal(signal.SIGTERM)
        assert [process.wait(timeout=120) for process in (scheduler, worker)] == [130, 130]
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.communicate()
        queue.close()
