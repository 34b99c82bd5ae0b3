"""The command as a person and a script meet it: help, exit codes, no tracebacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WEBMILL = [sys.executable, "-m", "webmill"]
# What `webmill --help` must not pay for.
HEAVY = ("msgspec", "rich", "apsw", "urllib3", "obstore", "aio_pika", "ray", "pyarrow", "re2", "asyncio")


def run(*arguments: str, text: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "80", **environment}
    return subprocess.run(
        [*WEBMILL, *arguments], input=text, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_help_lists_the_commands_and_imports_no_backend() -> None:
    code = f"""
import sys
from webmill.cli.main import main
sys.argv = ["webmill", "--help"]
try:
    main()
finally:
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout
    assert "warc" in done.stdout


def test_a_mistyped_command_is_a_usage_error_that_names_the_nearest() -> None:
    done = run("wrac")
    assert done.returncode == 2
    assert "Did you mean 'warc'?" in done.stderr


def test_keys_of_urls_from_arguments_and_from_stdin() -> None:
    assert run("surt", "http://www.Example.com/B?z&a").stdout == "com,example)/b?a&z\n"
    done = run("surt", text="http://a.example/\nhttp://b.example/x\n")
    assert done.stdout == "example,a)/\nexample,b)/x\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("warc", "check", "nowhere.warc.gz"), 2, "nowhere.warc.gz"),
        (("warc", "check", "."), 2, "is a directory"),
        (("--config", "none.toml", "warc", "check"), 2, "Missing argument"),
    ],
)
def test_wrong_use_is_a_sentence_and_a_code(arguments: tuple[str, ...], code: int, message: str) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_garbage_for_an_archive_is_rejected_with_code_3(tmp_path: Path) -> None:
    file = tmp_path / "x.warc.gz"
    file.write_bytes(os.urandom(5000))
    done = run("warc", "check", str(file))
    assert done.returncode == 3
    assert "not_warc" in done.stdout or "bad_gzip" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    urls = tmp_path / "urls"
    urls.write_text("http://a.example/\n" * 200_000)
    with urls.open() as source:
        process = subprocess.Popen([*WEBMILL, "surt"], stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"example,a)/\n"
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        process.stderr.close()
        assert process.wait(120) == 1
    assert errors == b""


def test_ctrl_c_says_that_nothing_is_lost_and_exits_130() -> None:
    process = subprocess.Popen(
        [*WEBMILL, "surt"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"http://a.example/\n" * 5000)  # enough to fill a buffer: its answer proves that it is at work
    process.stdin.flush()
    process.stdout.read(1)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"interrupted" in errors
    assert b"Traceback" not in errors


def test_a_bad_setting_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "webmill.toml"
    file.write_text("[queue]\nattempts = 'x'\n")
    done = run("--config", str(file), "demo", "--no-serve")
    assert done.returncode == 1
    assert f"cannot start: {file}:2" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_the_null_device(closed: str, tmp_path: Path) -> None:
    file = tmp_path / "x.cdxj"
    file.write_text('com,a)/ 20200101000000 {"url": "http://a.com/"}\n')
    for arguments in (f"surt http://a.example/ {closed}", f"cdxj sort {file} {closed}", f"cdxj sort - {closed}"):
        done = subprocess.run(
            ["sh", "-c", f"exec {' '.join(WEBMILL)} {arguments}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


def test_ctrl_c_while_it_starts_is_answered_too() -> None:
    """As if it came in the middle of an import."""
    code = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "click":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from webmill.cli.entry import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "webmill: interrupted\n")


def test_quiet_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").touch()
    done = run("-q", "index", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_queue_that_is_not_there_has_no_dead_batches(tmp_path: Path) -> None:
    file = tmp_path / "nothere.sqlite"
    done = run("cc", "dead", "list", "--queue", f"sqlite:{file}")
    assert done.returncode == 1
    assert "no queue" in done.stderr
    assert not file.exists()


def test_an_address_that_is_none_is_told_without_its_password() -> None:
    done = run("cc", "dead", "list", "--queue", "amqp://user:secret@localhost:x/")
    assert done.returncode == 1
    assert "write amqp://" in done.stderr
    assert "secret" not in done.stderr
