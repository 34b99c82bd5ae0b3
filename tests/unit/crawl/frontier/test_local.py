"""What is special to the local frontier: one process, bounded files and memory, full disks, damaged files, care."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from webmill.crawl.frontier.base import ClaimRequest, CommitResult, FrontierUpdate, LastVisit, TurnOutcomes, VisitDone
from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.local import STATE_FILE, LocalFrontier
from webmill.crawl.frontier.memory import MemoryFrontier
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles, encode_line
from webmill.errors import BadInput, Conflict, Misconfigured, Unavailable
from webmill.model import Link

NOW = 1_700_000_000.0
ROOT = Path(__file__).parents[4]


def links(count: int, *, domains: int = 10, start: int = 0) -> list[Link]:
    return [Link(f"https://site{number % domains}.com/{number}") for number in range(start, start + count)]


def take_all(frontier: LocalFrontier | MemoryFrontier) -> list[str]:
    found = []
    while turns := frontier.claim(ClaimRequest(turns=100, urls_per_turn=50, now=NOW, lease=60, hold=0)):
        done = [
            TurnOutcomes(turn.token, [VisitDone(LastVisit(url=item.url, time=NOW)) for item in turn.items], NOW)
            for turn in turns
        ]
        frontier.commit(FrontierUpdate(settled=done), now=NOW)
        found += [item.url for turn in turns for item in turn.items]
    return found


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with LocalFrontier(tmp_path / "f"):
        code = "import sys, pathlib, webmill.crawl.frontier.local as l; l.LocalFrontier(pathlib.Path(sys.argv[1]))"
        command = [sys.executable, "-c", code, str(tmp_path / "f")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode != 0
        assert "another process is crawling" in ended.stderr
        with pytest.raises(Conflict):
            LocalFrontier(tmp_path / "f")
    LocalFrontier(tmp_path / "f").close()


def test_closing_twice_is_harmless_and_use_afterwards_is_refused(tmp_path: Path) -> None:
    frontier = LocalFrontier(tmp_path / "f")
    frontier.close()
    frontier.close()
    with pytest.raises(Misconfigured):
        frontier.commit(FrontierUpdate(links=links(1)), now=NOW)


def open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_few_files_are_open_however_many_domains_there_are(tmp_path: Path) -> None:
    with LocalFrontier(tmp_path / "f", limits=FrontierLimits(open_files=5, waiting=0, table=500)) as frontier:
        before = open_files()
        frontier.commit(FrontierUpdate(links=links(1000, domains=400)), now=NOW)
        frontier.claim(ClaimRequest(turns=300, urls_per_turn=1, now=NOW, lease=60, hold=0))
        assert open_files() <= before + 5
    assert sum(1 for path in (tmp_path / "f" / "domains").rglob("*.*.*")) == 400


def test_names_of_files_come_from_hashes_only(tmp_path: Path) -> None:
    with LocalFrontier(tmp_path / "f") as frontier:
        frontier.commit(
            FrontierUpdate(links=[Link("https://../x"), Link("https://con/x"), Link("https://" + "a" * 300 + "/")]),
            now=NOW,
        )
    names = sorted(path.relative_to(tmp_path / "f" / "domains") for path in (tmp_path / "f").rglob("*.5.0"))
    assert len(names) == 3
    assert all(len(name.parts) == 2 and len(name.name) == 36 and name.name[:2] == name.parts[0] for name in names)


def test_what_was_read_gives_its_space_back(tmp_path: Path) -> None:
    domains = tmp_path / "f" / "domains"
    with LocalFrontier(tmp_path / "f", limits=FrontierLimits(file=300_000)) as frontier:
        frontier.commit(
            FrontierUpdate(links=[Link(f"https://a.com/{'x' * 1000}{number}") for number in range(1000)]), now=NOW
        )
    assert len(list(domains.rglob("*.*.*"))) == 4
    with LocalFrontier(tmp_path / "f", limits=FrontierLimits(file=300_000)) as frontier:
        (turn,) = frontier.claim(ClaimRequest(turns=1, urls_per_turn=500, now=NOW, lease=60, hold=0))
        assert len(list(domains.rglob("*.*.*"))) == 3
        before = sum(path.stat().st_blocks for path in domains.rglob("*.*.*"))
        frontier.compact()
        assert sum(path.stat().st_blocks for path in domains.rglob("*.*.*")) < before - 300  # 206 KiB were consumed
        frontier.commit(FrontierUpdate(settled=[TurnOutcomes(turn.token, [], NOW)]), now=NOW)
        assert len(take_all(frontier)) == 1000
        assert list(domains.rglob("*.*.*")) == []


def test_compaction_removes_files_that_a_kill_has_left(tmp_path: Path) -> None:
    with LocalFrontier(tmp_path / "f") as frontier:
        frontier.commit(FrontierUpdate(links=links(3, domains=1)), now=NOW)
    (path,) = (tmp_path / "f" / "domains").rglob("*.5.0")
    data = path.read_bytes()
    with LocalFrontier(tmp_path / "f") as frontier:
        take_all(frontier)
        path.write_bytes(data)
        stranger = path.with_name(path.name[:2] + "0" * 30 + ".1.7")
        stranger.write_bytes(data)
        path.with_name("notes.of.mine").write_bytes(b"x")
        frontier.compact()
        assert [file.name for file in path.parent.iterdir()] == ["notes.of.mine"]


@pytest.mark.parametrize("harm", ["flip", "cut", "gone"])
def test_a_damaged_domain_file_is_told_and_excluding_its_domain_helps(tmp_path: Path, harm: str) -> None:
    with LocalFrontier(tmp_path / "f") as frontier:
        frontier.commit(FrontierUpdate(links=links(5, domains=1)), now=NOW)
    (path,) = (tmp_path / "f" / "domains").rglob("*.5.0")
    data = path.read_bytes()
    path.write_bytes({"flip": data[:20] + b"!" + data[21:], "cut": data[:-3], "gone": b""}[harm])
    with LocalFrontier(tmp_path / "f") as frontier:
        frontier.commit(FrontierUpdate(links=[Link("https://well.com/")]), now=NOW)
        with pytest.raises(BadInput, match="exclude its domain"):
            frontier.claim(ClaimRequest(turns=5, urls_per_turn=9, now=NOW, lease=60, hold=0))
        assert frontier.stats().in_hand == 0
        frontier.exclude(["site0.com"])
        assert take_all(frontier) == ["https://well.com/"]


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """A disk that is full: writes behind `size` fail, as EFBIG. Python ignores the signal that comes with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1500, 9000, 40_000, 150_000])
def test_a_step_that_a_full_disk_refuses_changes_nothing_and_later_all_goes_on(tmp_path: Path, size: int) -> None:
    """The limit hits files of domains, runs, or SQLite, whichever grows there first."""
    model, failed = MemoryFrontier(), 0
    limits = FrontierLimits(table=100, file=2000, fan=2)
    with LocalFrontier(tmp_path / "f", limits=limits) as frontier:
        for round_ in range(30):
            step = FrontierUpdate(links=links(20, domains=3, start=round_ * 15))
            if round_ % 3:
                try:
                    with no_file_above(size):
                        answer: CommitResult | None = frontier.commit(step, now=NOW)
                except Unavailable:
                    answer, failed = None, failed + 1
            else:
                answer = frontier.commit(step, now=NOW)
            if answer:
                assert answer == model.commit(step, now=NOW)
            assert frontier.stats() == model.stats()
    assert failed or size > 100_000
    with LocalFrontier(tmp_path / "f", limits=limits) as frontier:
        assert frontier.stats() == model.stats()
        assert take_all(frontier) == take_all(model)


def test_a_checkpoint_whose_sync_fails_writes_all_lines_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed sync the kernel may have dropped what was written: here, it has."""
    limits = FrontierLimits(table=50, waiting=0)
    with LocalFrontier(tmp_path / "f", limits=limits) as frontier:
        frontier.commit(FrontierUpdate(links=links(60)), now=NOW)

        def fail(self: UrlQueueFiles) -> None:
            self.close()
            for path in written():
                path.write_bytes(b"")
            raise Unavailable("EIO")

        def written() -> list[Path]:
            return list((tmp_path / "f" / "domains").rglob("*.*.*"))

        assert len(written()) == 10

        with monkeypatch.context() as patch:
            patch.setattr(UrlQueueFiles, "sync", fail)
            with pytest.raises(Unavailable):
                frontier.commit(FrontierUpdate(links=links(10, start=60)), now=NOW)
        assert frontier.commit(FrontierUpdate(links=links(10, start=60)), now=NOW).added == 10
        assert sorted(take_all(frontier)) == sorted(link.url for link in links(70))


@pytest.mark.parametrize("waiting", [0, 1 << 20], ids=["written", "not even written"])
def test_lines_that_were_not_synced_come_from_the_journal(tmp_path: Path, waiting: int) -> None:
    frontier = LocalFrontier(tmp_path / "f", limits=FrontierLimits(waiting=waiting))
    frontier.commit(FrontierUpdate(links=links(100)), now=NOW)
    frontier._stack.close()  # dies
    files = list((tmp_path / "f" / "domains").rglob("*.*.*"))
    assert len(files) == (10 if waiting == 0 else 0)
    for path in files:  # and the power fails
        path.unlink()
    with LocalFrontier(tmp_path / "f") as frontier:
        assert frontier.commit(FrontierUpdate(links=links(101)), now=NOW) == CommitResult(1, 100)
        assert sorted(take_all(frontier)) == sorted(link.url for link in links(101))


def test_each_file_is_synced_where_the_system_cannot_sync_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webmill.crawl.frontier.url_queue_files._syncfs", None)
    with LocalFrontier(tmp_path / "f", limits=FrontierLimits(table=30, open_files=3)) as frontier:
        for start in range(0, 200, 10):
            frontier.commit(FrontierUpdate(links=links(10, start=start)), now=NOW)
        assert len(take_all(frontier)) == 200


def test_no_url_is_lost_to_a_filter_that_says_maybe_to_all(tmp_path: Path) -> None:
    with LocalFrontier(tmp_path / "f", limits=FrontierLimits(table=1000, fan=3, hashes_per_word=1_000_000)) as frontier:
        for start in range(0, 8000, 500):
            assert frontier.commit(FrontierUpdate(links=links(1000, start=start)), now=NOW) == CommitResult(
                *((1000, 0) if start == 0 else (500, 500))
            )
        assert sorted(take_all(frontier)) == sorted(link.url for link in links(8500))


CHILD = """
import sys
from pathlib import Path
from tests.memory import peak_memory
from webmill.crawl.frontier.local import LocalFrontier
from webmill.crawl.frontier.base import FrontierUpdate, domain_of
from webmill.model import Link

def add(frontier, start, stop):
    for at in range(start, stop, 5000):
        links = [Link(f"https://site{number % 300}.com/{number}/" + "x" * 50) for number in range(at, at + 5000)]
        assert frontier.commit(FrontierUpdate(links=links), now=1.0).added == 5000

frontier = LocalFrontier(Path(sys.argv[1]))
add(frontier, 0, 140_000)  # the table was full once, the caches are warm
before = peak_memory()
add(frontier, 140_000, 400_000)
print(before, peak_memory())
frontier.close()
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_urls(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path / "f")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    before, after = map(int, ended.stdout.split())
    print(f"{before >> 20} MiB, then {after >> 20} MiB")
    assert after - before < 24 << 20  # 260,000 URLs as Python strings alone would be 35 MiB


def test_what_is_read_soon_never_becomes_a_file(tmp_path: Path) -> None:
    with LocalFrontier(tmp_path / "f") as frontier:
        for start in range(0, 1000, 100):
            frontier.commit(FrontierUpdate(links=links(100, start=start)), now=NOW)
            (turn, *_) = frontier.claim(ClaimRequest(turns=1, urls_per_turn=3, now=NOW, lease=60, hold=0))
            assert len(take_all(frontier)) == 90  # of the other domains
            frontier.commit(FrontierUpdate(settled=[TurnOutcomes(turn.token, [], NOW)]), now=NOW)
            assert len(take_all(frontier)) == 10
        assert frontier._queues._unwritten_bytes == 0
        assert frontier.stats().visited == 1000
    assert list((tmp_path / "f" / "domains").iterdir()) == []


def test_of_lines_that_wait_in_memory_those_that_were_read_are_not_written(tmp_path: Path) -> None:
    queue, line = UrlQueue(b"x" * 16, 5), encode_line(b"https://a.com/1", 1)
    with closing(UrlQueueFiles(tmp_path)) as queues:
        queues.write(queue, 0, 9 * line)
        queues.drop(queue, was=0, read=6 * len(line), end=9 * len(line))
        queues.write(queue, 9 * len(line), line)
        assert queues._unwritten_bytes == 4 * len(line)
        queues.flush()
        assert queues.reach(queue, 0) == 10 * len(line)
        assert (tmp_path / queue.file(0)).read_bytes() == bytes(6 * len(line)) + 4 * line
        assert len(queues.read(queue, 6 * len(line), 10 * len(line), count=9)) == 4


def test_lines_are_read_from_their_file_and_from_memory_as_one_queue(tmp_path: Path) -> None:
    queue, rows = UrlQueue(b"x" * 16, 5), [encode_line(b"https://a.com/%d" % number, 1) for number in range(10)]
    size = len(rows[0])
    with closing(UrlQueueFiles(tmp_path, size=3 * size + 5)) as queues:
        queues.write(queue, 0, b"".join(rows[:6]))
        queues.flush()
        queues.write(queue, 6 * size, b"".join(rows[6:]))
        for start in range(10):
            for end in range(start, 10):
                assert queues.bytes_of(queue, start * size, end * size) == b"".join(rows[start:end])
        assert queues._unwritten_bytes == 4 * size  # nothing was written for that
        with pytest.raises(BadInput, match="damaged or gone"):
            queues.bytes_of(queue, 0, 11 * size)


def test_lines_written_again_leave_those_behind_them(tmp_path: Path) -> None:
    queue, one, two = UrlQueue(b"x" * 16, 5), encode_line(b"https://a.com/1", 1), encode_line(b"https://a.com/2", 1)
    queues = UrlQueueFiles(tmp_path)
    with closing(queues):
        queues.write(queue, 0, one + two)
        queues.write(queue, 0, one)  # as after a sync that failed, when the disk is full before the second
        assert [line.url for line in queues.read(queue, 0, 2 * len(one), count=9)] == [
            "https://a.com/1",
            "https://a.com/2",
        ]


@pytest.mark.parametrize("harm", ["deleted", "emptied"])
def test_a_frontier_without_its_state_is_refused_and_nothing_of_it_is_removed(tmp_path: Path, harm: str) -> None:
    with LocalFrontier(tmp_path / "f", limits=FrontierLimits(table=2)) as frontier:
        for number in range(20):
            frontier.commit(FrontierUpdate(links=[Link(f"https://a.com/{number}", priority=1)]), now=NOW)
    runs = sorted((tmp_path / "f" / "seen").iterdir())
    assert runs
    (tmp_path / "f" / STATE_FILE).unlink()
    if harm == "emptied":
        (tmp_path / "f" / STATE_FILE).touch()
    with pytest.raises(BadInput, match=r"state\.sqlite: is missing.*`webmill frontier restore`"):
        LocalFrontier(tmp_path / "f")
    assert sorted((tmp_path / "f" / "seen").iterdir()) == runs


def test_visits_of_an_older_frontier_keep_their_places(tmp_path: Path) -> None:
    url = 'https://a.com/?a=,"file":"b'
    last = LastVisit(url=url, time=NOW, error=',"file":"', filename="x.warc.gz", offset=5, length=7, digest="sha1:A")
    with LocalFrontier(tmp_path / "f") as frontier:
        frontier.commit(FrontierUpdate(visited=[VisitDone(last, revisit_due=NOW)]), now=NOW)
    with closing(apsw.Connection(str(tmp_path / "f" / STATE_FILE))) as database:
        database.execute("""UPDATE visit SET body = replace(body, '"filename":', '"file":')""")
        assert database.total_changes() == 1
        assert '"file":"x.warc.gz"' in database.execute("SELECT body FROM visit").fetchall()[0][0]
    with LocalFrontier(tmp_path / "f") as frontier:
        assert frontier.visit(url) == last
        assert list(frontier.visits()) == [last]
        [turn] = frontier.claim(ClaimRequest(turns=1, urls_per_turn=1, now=NOW, lease=60, hold=0, revisits=True))
        assert turn.items[0].last == last
