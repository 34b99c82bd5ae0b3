"""nginx, a web server that we did not write, before folders of a test. It honours Range, If-Match and keep-alive.

One folder on one address (the fixture `nginx` starts it for a test and stops it at its end):

    @pytest.mark.server("nginx")
    def test_…(nginx, tmp_path):
        server = nginx(tmp_path)
        server.url             # http://127.0.0.1:PORT
        server.log()           # every request so far: Asked(host, method, path, status, at, …), in the order they ended

Many hosts on one port, each on its own loopback address if it is given one (Linux has all of 127.0.0.0/8; macOS only
those that were made with `ifconfig lo0 alias`). A request for a host that is not there is refused with status 421:

    server = nginx(hosts={"a.test": folder, "b.test": other}, addresses={"b.test": "127.0.3.7"})
    server.port, server.addresses["a.test"]      # "127.0.0.1", where it was given none
    server.url_of("a.test")                      # http://a.test:PORT: the client must resolve it by `addresses`

`directives` goes into every `server` block as it stands: `limit_rate 10k;`, `location /old { return 301 /new; }`.
With a `certificate` (a chain and its key in one file) the hosts that have an address of their own speak TLS there, and
with `listen="http2"` HTTP/2 as well; the log says of each request whether its connection resumed a session.
Outside of a test: `with nginx_serving(folder) as server: …`. It needs no root, and writes only to a folder of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.base import CannotStart, Running, answers, find, free_port, install

PACKAGE = "nginx-light"
MARK = "/.webmill-mark"
ANSWER_MARK = f"location = {MARK} {{ access_log off; return 204; }}"
FIELDS = {
    "host": "host",
    "address": "server_addr",
    "method": "request_method",
    "path": "request_uri",
    "status": "status",
    "range": "http_range",
    "user_agent": "http_user_agent",
    "sent": "body_bytes_sent",
    "ended": "msec",
    "took": "request_time",
    "connection": "connection",
    "request": "connection_requests",
    "protocol": "server_protocol",
    "resumed": "ssl_session_reused",
}
# A raised limit of open files: hundreds of hosts are hundreds of listening sockets, each with its connections.
SHELL = 'ulimit -n "$(ulimit -H -n)" 2>/dev/null; exec "$0" "$@"'
CONFIGURATION = """\
daemon off;
master_process off;  # one process, of the user who runs the tests: it may read what they may
pid "{folder}/nginx.pid";
events {{ worker_connections 4096; }}
http {{
  {temporary}
  types {{
    text/html html htm; text/plain txt; text/css css; text/javascript js; application/xml xml; application/json json;
    image/png png; image/jpeg jpg jpeg; application/pdf pdf; application/gzip gz; application/rss+xml rss;
  }}
  default_type application/octet-stream;
  server_names_hash_max_size 65536;
  server_names_hash_bucket_size 256;
  log_format asked escape=json '{format}';
  access_log "{folder}/access.log" asked;
  keepalive_requests 1000000;
  {servers}
}}
"""


@dataclass(frozen=True)
class Asked:
    """One request. Times are of the wall clock, in seconds with milliseconds."""

    host: str
    address: str
    method: str
    path: str  # as it was sent, with the query
    status: int
    range: str
    user_agent: str
    sent: int  # bytes of the body
    at: float  # when its first byte came
    ended: float
    connection: int
    request: int  # which one of its connection, from 1
    protocol: str  # HTTP/1.1, HTTP/2.0
    resumed: bool  # the TLS session of its connection is an earlier one


@dataclass
class Nginx:
    port: int
    addresses: Mapping[str, str]
    folder: Path
    running: Running
    scheme: str = "http"

    @property
    def url(self) -> str:
        return self.running.url

    def url_of(self, host: str) -> str:
        return f"{self.scheme}://{host}:{self.port}"

    def log(self) -> list[Asked]:
        """Of one process: when it answers this request, those it answered before are written."""
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self.url + MARK, timeout=30).close()
        return [asked(line) for line in (self.folder / "access.log").read_text().splitlines()]


def asked(line: str) -> Asked:
    printed = json.loads(line)
    for name in ("status", "sent", "connection", "request"):
        printed[name] = int(printed[name])
    printed["resumed"] = printed["resumed"] == "r"
    printed["ended"] = float(printed["ended"])
    printed["at"] = printed["ended"] - float(printed.pop("took"))
    return Asked(**printed)


@contextmanager
def nginx_serving(
    folder: Path | None = None,
    *,
    hosts: Mapping[str, Path] | None = None,
    addresses: Mapping[str, str] | None = None,
    directives: str = "",
    certificate: Path | None = None,
    listen: str = "",
) -> Iterator[Nginx]:
    """`folder` for every name that is not one of `hosts`, on 127.0.0.1."""
    own = Path(tempfile.mkdtemp(prefix="webmill-nginx-"))
    try:
        tls = f"ssl {listen}".strip() if certificate else ""
        keys = f'ssl_certificate "{certificate}"; ssl_certificate_key "{certificate}";' if certificate else ""
        server = start(
            own, folder, hosts=hosts or {}, addresses=addresses or {}, directives=f"{keys} {directives}", tls=tls
        )
        try:
            yield server
        finally:
            server.running.stop()
    finally:
        shutil.rmtree(own, ignore_errors=True)


def start(
    own: Path,
    folder: Path | None,
    *,
    hosts: Mapping[str, Path],
    addresses: Mapping[str, str],
    directives: str,
    tls: str = "",
) -> Nginx:
    program, port = program_of_nginx(), free_port()
    places = {host: addresses.get(host, "127.0.0.1") for host in hosts}
    assert not tls or "127.0.0.1" not in places.values(), "127.0.0.1 is asked for the log, without TLS"
    blocks = [fallback(address, port, folder, directives, tls) for address in sorted({"127.0.0.1", *places.values()})]
    blocks += [block(f"{places[host]}:{port} {tls}", host, hosts[host], directives) for host in hosts]
    form = ",".join(f'"{name}":"${variable}"' for name, variable in FIELDS.items())
    configuration = own / "nginx.conf"
    configuration.write_text(
        CONFIGURATION.format(
            folder=own, temporary=temporary(program, own), format=f"{{{form}}}", servers="\n  ".join(blocks)
        )
    )
    command = ["/bin/sh", "-c", SHELL, program, "-e", "stderr", "-p", str(own), "-c", str(configuration)]
    running = Running("nginx", f"http://127.0.0.1:{port}", command, own, lambda: answers(port)).start()
    return Nginx(port=port, addresses=places, folder=own, running=running, scheme="https" if tls else "http")


def program_of_nginx() -> str:
    program = find("nginx", ()) or (install(PACKAGE) and find("nginx", ()))
    if not program:
        raise CannotStart(
            f"nginx is not installed: install it (Debian: apt-get install {PACKAGE}; macOS: brew install nginx), or "
            "leave the servers out with `make test SERVICES=0`"
        )
    return program


def temporary(program: str, own: Path) -> str:
    """Each module that a build has makes its folder at the start, in a place of root's unless it is told another."""
    built = subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stderr
    modules = [name for name in ("proxy", "fastcgi", "uwsgi", "scgi") if f"--without-http_{name}_module" not in built]
    return " ".join(f'{name}_temp_path "{own}/{name}";' for name in ("client_body", *modules))


def fallback(address: str, port: int, folder: Path | None, directives: str, tls: str) -> str:
    """For names that are not served: nothing is served by accident."""
    listen = f"{address}:{port} default_server backlog=4096"
    if folder and address == "127.0.0.1":
        return block(listen, "_", folder, directives)
    own = f"listen {listen};" if address == "127.0.0.1" or not tls else f"listen {listen} {tls}; {directives}"
    return f"server {{ {own} server_name _; {ANSWER_MARK} location / {{ return 421; }} }}"


def block(listen: str, name: str, folder: Path, directives: str) -> str:
    root = str(folder.resolve())
    assert not set(root) & set('$"\\\n'), f"nginx cannot be told this path: {root}"
    return f'server {{ listen {listen}; server_name {name}; root "{root}"; {ANSWER_MARK} {directives} }}'
