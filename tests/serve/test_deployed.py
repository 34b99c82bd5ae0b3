"""What deploy/ has for a server: the dashboard asks for what is served, and nginx takes its configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.server_process import RunningServer, read_all, serving
from tests.services.base import Running as Service
from tests.services.base import answers, free_port
from tests.services.nginx import program_of_nginx, temporary
from webmill.serve.processes.metrics import METRICS
from webmill.serve.processes.shared_counters import SharedCounters
from webmill.settings import ServeSettings

DEPLOY = Path(__file__).parents[2] / "deploy"
FUNCTIONS = {"sum", "by", "rate", "histogram_quantile", "le", "job"}
LABELS = {label for metric in METRICS for label in metric.labels}


def queries() -> list[str]:
    board = json.loads((DEPLOY / "grafana" / "dashboards" / "server.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_the_dashboard_asks_for_what_is_served_and_shows_all_of_it() -> None:
    bare = [re.sub(r'"[^"]*"|\[[^\]]*\]', "", query) for query in queries()]
    asked = {name for query in bare for name in re.findall(r"[a-z_]+", query)} - FUNCTIONS - LABELS
    reported = SharedCounters().render().decode().splitlines()
    served = {re.split("[{ ]", line)[0] for line in reported if not line.startswith("#")}
    of_processes = {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"}
    assert asked <= served | of_processes
    assert {name for name in served if name.startswith("webmill_serve_")} <= asked


def test_its_panels_do_not_cover_each_other() -> None:
    board = json.loads((DEPLOY / "grafana" / "dashboards" / "server.json").read_text())
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


def test_prometheus_asks_where_the_server_is() -> None:
    jobs = (DEPLOY / "prometheus.yml").read_text().partition("job_name: server ")[2]
    assert re.findall(r'targets: \["(.*)"\]', jobs) == [f"127.0.0.1:{ServeSettings().port}"]


@pytest.fixture
def behind(sample_root: Path, tmp_path: Path) -> Iterator[tuple[RunningServer, int]]:
    """A server, and the port of nginx in front of it, configured as we advise."""
    flags = (
        "--allow-host",
        "archive.example.org",
        "--replay-zone",
        "http://replay.example.net",
        "--proxy",
        "127.0.0.1",
    )
    with serving(sample_root, tmp_path / "errors", *flags, "--no-feed") as running:
        port, program = free_port(), program_of_nginx()
        conf = (DEPLOY / "nginx" / "webmill.conf").read_text()
        for old, new in (
            ("listen 80;", f"listen 127.0.0.1:{port};"),
            ("127.0.0.1:8080", f"127.0.0.1:{running.port}"),
            ("127.0.0.1:8081", f"127.0.0.1:{running.replay_port}"),
            ("/srv/webmill/news", str(sample_root)),
            ('# "https://example.org"', '"https://example.org"'),
        ):
            assert old in conf
            conf = conf.replace(old, new)
        (tmp_path / "webmill.conf").write_text(conf)
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {tmp_path}/pid; events {{}}\n"
            f"http {{ {temporary(program, tmp_path)} access_log off; include {tmp_path}/webmill.conf; }}\n"
        )
        command = [program, "-e", "stderr", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        nginx = Service("nginx", f"http://127.0.0.1:{port}", command, tmp_path, lambda: answers(port)).start()
        try:
            yield running, port
        finally:
            nginx.stop()


@pytest.mark.server("nginx")
@pytest.mark.xdist_group("serve")
def test_nginx_sends_files_itself_and_asks_for_the_rest(behind: tuple[RunningServer, int], sample_root: Path) -> None:
    running, port = behind

    def ask(
        path: str, *, method: str = "GET", host: str = "archive.example.org", headers: str = ""
    ) -> tuple[str, bytes]:
        with running.connect(port) as connection:
            printed = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n"
            connection.sendall(printed.encode())
            head, _, body = read_all(connection).partition(b"\r\n\r\n")
            return head.decode().lower(), body

    blob = next(iter(sorted((sample_root / "blobs" / "sha256").iterdir())))
    warc = next(iter(sorted(sample_root.glob("crawl-data/*/segments/*/warc/*.warc.gz"))))
    archive = "/" + warc.relative_to(sample_root).as_posix()
    version = json.loads((sample_root / "latest.json").read_text())["version"]
    head, body = ask(f"/blobs/sha256/{blob.name}", headers="Origin: https://example.org\r\n")
    assert body == blob.read_bytes()
    for line in (
        "immutable",
        "nosniff",
        "sandbox",
        "application/json",
        "access-control-allow-origin: https://example.org",
    ):
        assert line in head
    assert "access-control" not in ask("/latest.json", headers="Origin: https://other.example\r\n")[0]
    assert "max-age=10," in ask("/latest.json")[0]
    assert "max-age=60" in ask(f"/snapshots/{version}/aux/diff.json")[0]
    part, data = ask(archive, headers="Range: bytes=5-9\r\n")
    assert (part.split()[1], data) == ("206", warc.read_bytes()[5:10])
    assert ask(f"/blobs/sha256/{blob.name}", method="POST")[0].split()[1] == "403"
    assert ask("/metrics")[0].split()[1] == "200"  # from this machine
    assert ask("/version")[1].startswith(b'{"webmill"')
    for path in ("/snapshots/_history/000000000001.json", "/webmill.toml", "/crawl-data/.x", "/queue.sqlite"):
        assert ask(path)[0].split()[1] == "404"
    assert ask("/latest.json", host="x.replay.example.net")[0].split()[1] == "404"
    shown, page = ask("/web/20230401120000/https://town.example/", host="view.replay.example.net")
    assert shown.split()[1] == "200"
    source = re.search(rb'src="http://([^/"]+)/"', page)
    assert source
    assert source[1].endswith(b"-s-town-example.replay.example.net")
    framed, archived = ask("/", host=source[1].decode(), headers="Sec-Fetch-Dest: iframe\r\n")
    assert f"frame-ancestors http://view.replay.example.net:{running.port} http://*.replay.example.net" in framed
    assert b"The town" in archived
    assert ask("/none", method="POST", host=source[1].decode())[0].split()[1] == "404"
