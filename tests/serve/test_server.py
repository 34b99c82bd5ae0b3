"""`webmill serve` as people start and stop it; what reads Common Crawl reads it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import structs
from warcio.archiveiterator import ArchiveIterator

from tests.pipeline.cc_commands import cc
from tests.pipeline.cc_pages import rows
from tests.serve import sample_collection
from tests.serve.server_process import DEADLINE, RunningServer, read_all, serving, wait_until_true
from webmill.cli.main import webmill
from webmill.cli.serve_processes import ServerPlan, index_live_version
from webmill.errors import WebmillError
from webmill.settings import Settings

pytestmark = [
    pytest.mark.xdist_group("serve"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc"),
]


@pytest.fixture(scope="module")
def two(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Two processes, as in production."""
    folder = tmp_path_factory.mktemp("two")
    flags = ("--processes", "2", "--rate", "0", "--no-feed", "--access-log", str(folder / "access.log"))
    with serving(sample_root, folder / "errors", *flags) as running:
        yield running


def get(address: str, **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(address, headers={name.replace("_", "-"): text for name, text in headers.items()})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=DEADLINE) as answer:
        return answer.status, answer.read()


def test_one_line_says_where_it_is(two: RunningServer, sample_root: Path) -> None:
    printed = two.errors.read_text().splitlines()
    assert printed == [
        f"serving {sample_root} at {two.address}/ (archived pages at http://127.0.0.1:{two.replay_port}/; Ctrl-C stops)"
    ]
    assert get(f"{two.address}/healthz")[0] == 200


def test_both_origins_are_apart(two: RunningServer) -> None:
    with two.connect(two.replay_port) as connection:
        connection.sendall(b"GET /latest.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 404 ")
    assert two.get("/latest.json").startswith(b"HTTP/1.1 200 ")


def delivered(server: RunningServer) -> float:
    text = server.get("/metrics").decode()
    return float(re.findall(r'requests_total{kind="delivery",status="2xx"} (\S+)', text)[0])


def deliver(server: RunningServer, count: int) -> float:
    """How many there were then. An answer may be here before it is counted."""
    before = delivered(server)
    for _ in range(count):
        assert server.get("/latest.json").startswith(b"HTTP/1.1 200 ")
    wait_until_true(lambda: delivered(server) >= before + count, "the numbers")
    return before + count


def test_any_process_tells_the_numbers_of_all(two: RunningServer) -> None:
    count = deliver(two, 40)
    (reported,) = {delivered(two) for _ in range(10)}
    assert reported >= count
    assert len(two.workers()) == 2


def test_a_process_that_is_killed_is_replaced_and_its_numbers_stay(two: RunningServer) -> None:
    count = deliver(two, 10)
    before = two.workers()
    os.kill(before[0], signal.SIGKILL)
    after = wait_until_true(lambda: len(set(two.workers()) - set(before)) == 1 and two.workers(), "another process")
    assert before[0] not in after
    wait_until_true(lambda: len(two.workers()) == 2, "two processes")
    assert deliver(two, 10) >= count + 10
    assert "died and is started again" in two.errors.read_text()


def test_the_access_log_has_a_line_for_each_request(two: RunningServer) -> None:
    two.get("/version?marked", headers="User-Agent: test\r\n")
    log = Path(two.errors).with_name("access.log")
    line = wait_until_true(
        lambda: next((one for one in log.read_text().splitlines() if "/version?marked" in one), None), "a line"
    )
    assert (json.loads(line)["status"], json.loads(line)["agent"]) == (200, "test")


def test_warcio_reads_a_record_by_its_place_in_the_index(two: RunningServer, sample_root: Path) -> None:
    for line in (sample_root / "cdxj").glob("*.cdxj").__next__().read_text().splitlines()[:5]:
        fields = json.loads(line.split(" ", 2)[2])
        first = int(fields["offset"])
        wanted = f"bytes={first}-{first + int(fields['length']) - 1}"
        status, data = get(f"{two.address}/{fields['filename']}", Range=wanted)
        assert status == 206
        record = next(iter(ArchiveIterator(io.BytesIO(data))))
        assert record.rec_headers.get_header("WARC-Target-URI") == fields["url"]


def test_warcio_reads_a_whole_file_as_it_comes(two: RunningServer, sample_root: Path) -> None:
    path = next(iter(sorted(sample_root.glob("crawl-data/*/segments/*/warc/*.warc.gz"))))
    with urllib.request.urlopen(f"{two.address}/{path.relative_to(sample_root)}", timeout=DEADLINE) as stream:
        kinds = [record.rec_type for record in ArchiveIterator(stream)]
    assert kinds.count("response") > 10


def test_a_second_webmill_reads_it_as_it_reads_common_crawl(two: RunningServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    flags = ("--crawl", sample_collection.NAME, "--domain", "town.example", "--status", "200", "--mime", "text/html")
    ran = cc("run", *flags, "--base-url", two.address, "--out", out, "--format", "jsonl", "--rate", "0", "--no-metrics")
    assert ran.returncode == 0, ran.stderr
    assert {"https://town.example/", "https://town.example/news"} <= {row["url"] for row in rows(out)}


def test_no_process_is_left_when_the_parent_is_killed(two: RunningServer) -> None:
    """The last that asks these two."""
    two.process.kill()
    two.process.wait()
    wait_until_true(lambda: not accepts(two.port), "the end of all")


def test_a_download_that_runs_is_finished_when_the_server_is_stopped(sample_root: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))
    large = root / "crawl-data" / "large.gz"
    with large.open("wb") as file:
        file.truncate(48 << 20)
    with serving(root, tmp_path / "errors", "--no-feed") as server, server.connect() as connection:
        connection.sendall(b"GET /crawl-data/large.gz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        begun = connection.recv(1000)
        server.process.send_signal(signal.SIGTERM)
        wait_until_true(lambda: not accepts(server.port), "no new connection")
        rest = read_all(connection)
        assert begun.startswith(b"HTTP/1.1 200 ")
        assert len(begun + rest) - (begun + rest).index(b"\r\n\r\n") - 4 == 48 << 20
        assert server.process.wait(DEADLINE) == 0
    assert "Traceback" not in server.errors.read_text()


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def test_over_tls(sample_root: Path, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    flags = ("--certificate", str(certificate), "--key", str(key), "--no-feed")
    with serving(sample_root, tmp_path / "errors", *flags) as server:
        assert server.scheme == "https"
        context = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(f"{server.address}/latest.json", timeout=DEADLINE, context=context) as answer:
            assert answer.status == 200
            assert "max-age" in answer.headers["Strict-Transport-Security"]
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="deprecated"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with server.connect() as connection, pytest.raises((ssl.SSLError, ConnectionResetError)):
            old.wrap_socket(connection)
        assert server.print_line(b"GET / HTTP/1.1\r\n\r\n")[:5] != b"HTTP/"
        assert server.stop() == 0


def make_certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(private)
    return folder / "cert.pem", folder / "key.pem"


def test_what_stops_it_from_starting_is_a_sentence(sample_root: Path, tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("nonsense")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for flags, printed in (
            (("--port", str(port)), f"port {port} of 127.0.0.1 is taken: choose another with --port"),
            (("--port", "0", "--replay-port", str(port)), "choose another with --replay-port"),
            (("--port", "0", "--certificate", str(tmp_path / "no.pem")), "not a matching certificate and key"),
            (("--port", "0", "--certificate", str(tmp_path / "none.pem")), "does not exist"),
            (("--port", "0", "--key", "x.pem"), "--key needs --certificate"),
            (("--port", "0", "--address", "archive.example"), "is not an origin"),
            (
                ("--address", "https://a.example/archive", "--replay-address", "https://b.example"),
                "/archive is not an origin",
            ),
            (("--address", "https://a.example", "--replay-address", "https://A.example:443/"), "must differ"),
            (("--address", "https://a.example"), "need their own URL"),
            (("--origin", "a.example"), "a.example is not an origin"),
            (("--origin", "null"), "null is not an origin"),
            (("--allow-host", "a.example:8080"), "is not a host name"),
            (("--allow-host", "https://a.example"), "is not a host name"),
            (
                ("--port", "0", "--address", "https://a.example"),
                "give --address and --replay-zone, or --replay-address",
            ),
            (
                ("--port", "0", "--address", "https://a.example", "--replay-address", "https://a.example/"),
                "must differ",
            ),
            (("--port", "0", "--proxy", "nonsense"), "nonsense is not an IP address or network"),
            (("--port", "0", "--access-log", str(tmp_path / "no" / "log")), "cannot write the access log"),
        ):
            assert printed in refused(sample_root, *flags)
    nowhere = CliRunner().invoke(webmill, ["serve", str(tmp_path / "nowhere"), "--port", "0"])
    assert (nowhere.exit_code, "does not exist" in nowhere.output) == (2, True)


def test_a_feed_that_waits_for_its_search_engine_does_not_hold_up_the_end(sample_root: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes what is asked, and never answers
        url = f"meilisearch://key@127.0.0.1:{silent.getsockname()[1]}/town"
        root = tmp_path / "town"
        shutil.copytree(sample_root, root)
        (root / "webmill.toml").write_text(f'[search]\nurl = "{url}"\n')
        silent.settimeout(DEADLINE)
        with serving(root, tmp_path / "errors") as server:
            asked, _ = silent.accept()
            with asked:
                asked.settimeout(DEADLINE)
                assert asked.recv(1)
                assert server.stop() == 0
    assert "did not end and was killed" not in (tmp_path / "errors").read_text()


@pytest.mark.soak
def test_a_search_that_waits_for_its_engine_ends_with_the_time_for_answers(sample_root: Path, tmp_path: Path) -> None:
    """Half a minute: what is on its way has so long. The thread that waits would hold the process for longer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        root = tmp_path / "town"
        shutil.copytree(sample_root, root)
        url = f"meilisearch://key@127.0.0.1:{silent.getsockname()[1]}/town"
        (root / "webmill.toml").write_text(f'[search]\nurl = "{url}"\n')
        silent.settimeout(DEADLINE)
        with serving(root, tmp_path / "errors", "--no-feed") as server, server.connect() as client:
            client.sendall(b"GET /search?q=a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            asked, _ = silent.accept()
            with asked:
                asked.settimeout(DEADLINE)
                assert asked.recv(1)
                assert server.stop() == 0
    assert "did not end and was killed" not in (tmp_path / "errors").read_text()


def refused(root: Path, *flags: str) -> str:
    """In this process: nothing is started."""
    result = CliRunner().invoke(webmill, ["serve", str(root), *flags])
    assert isinstance(result.exception, WebmillError), result.output
    return str(result.exception)


@pytest.mark.soak
def test_strangers_are_warned_of(sample_root: Path, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with errors.open("wb") as out:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "webmill",
                "serve",
                str(sample_root),
                "--host",
                "0.0.0.0",
                "--port",
                "0",
                "--no-feed",
            ],
            stderr=out,
        )
    try:
        wait_until_true(lambda: "serving" in errors.read_text(), "a server")
        assert "with --token" in errors.read_text()
        port = int(re.findall(r":(\d+)/ \(", errors.read_text())[0])
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert read_all(connection).startswith(b"HTTP/1.1 200 ")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def unsearched(sample_root: Path, tmp_path: Path) -> Path:
    """Published, but not indexed for search."""
    root = Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))
    shutil.rmtree(root / "search")
    return root


def live(root: Path) -> str:
    version: str = json.loads((root / "latest.json").read_text())["version"]
    return version


def test_search_is_fed_with_what_is_published(unsearched: Path, tmp_path: Path) -> None:
    plan = ServerPlan(
        root=unsearched,
        settings=Settings(),
        storage=None,
        address="",
        replay_address="",
        secret=b"",
        numbers=tmp_path,
        verbosity=0,
    )
    assert index_live_version(plan, "") == live(unsearched) == cursor(unsearched)
    shutil.rmtree(unsearched / "search")
    assert index_live_version(plan, live(unsearched)) == live(unsearched)
    assert not (unsearched / "search").exists()  # it is looked at only when there is another version
    empty = tmp_path / "empty"
    empty.mkdir()
    assert index_live_version(structs.replace(plan, root=empty), "") == ""
    assert not (empty / "search").exists()


@pytest.mark.soak
def test_search_is_fed_while_it_is_served(unsearched: Path, tmp_path: Path) -> None:
    with serving(unsearched, tmp_path / "errors"):
        meta = unsearched / "search" / "meta.json"
        wait_until_true(lambda: meta.is_file() and cursor(unsearched) == live(unsearched), "an index")


def cursor(root: Path) -> str:
    from contextlib import closing

    from webmill.search.backends import open_search

    with closing(open_search(str(root / "search"), create=False)) as engine:
        return engine.cursor() or ""
