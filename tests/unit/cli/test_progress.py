"""What a person sees of long work: a bar on a terminal, plain lines in a log, nothing when quiet."""

from __future__ import annotations

import io
import re
from contextlib import suppress

from webmill.cli.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_log_file_a_plain_line_comes_every_few_seconds() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress("Reading", total=800, unit="records", quiet=False, stream=out, clock=clock) as progress:
        for _ in range(80):
            clock.now += 0.125  # exact in binary
            progress.advance(10)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("Reading: 400 of 800 records (50 %), 80/s")
    assert len(lines) == 3  # at 5 s, at 10 s, and the end


def test_short_work_in_a_log_file_says_nothing() -> None:
    out = io.StringIO()
    with Progress("Reading", total=None, unit="records", quiet=False, stream=out, clock=Clock()) as progress:
        progress.advance()
    assert out.getvalue() == ""


def test_slow_steps_have_no_speed_and_a_failure_before_the_first_says_nothing() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress("Demo", total=11, unit="steps", quiet=False, stream=out, clock=clock) as progress:
        clock.now = 5
        progress.advance(2)
    assert out.getvalue().splitlines()[0] == "Demo: 2 of 11 steps (18 %)"
    nothing = io.StringIO()
    with (
        suppress(OSError),
        Progress("Reading", total=None, unit="records", quiet=False, stream=nothing, clock=clock),
    ):
        raise OSError
    assert nothing.getvalue() == ""


def test_quiet_is_quiet_on_a_terminal_too() -> None:
    out, clock = Terminal(), Clock()
    with Progress("Reading", total=1, unit="records", quiet=True, stream=out, clock=clock) as progress:
        clock.now = 60
        progress.advance()
    assert out.getvalue() == ""


def test_on_a_terminal_a_bar_shows_title_and_count() -> None:
    out, clock = Terminal(), Clock()
    with Progress("Reading", total=10, unit="records", quiet=False, stream=out, clock=clock) as progress:
        clock.now = 1
        progress.advance(10)
    assert "Reading" in out.getvalue()
    assert "10 of 10 records" in out.getvalue()


def test_work_of_unknown_length_has_a_count_and_no_bar() -> None:
    out, clock = Terminal(), Clock()
    with Progress("Publishing", total=None, unit="pages", quiet=False, stream=out, clock=clock) as progress:
        clock.now = 2
        progress.advance(12_345)
    assert "Publishing 12,345 pages 6,172/s" in out.getvalue()
    assert "━" not in out.getvalue()
    assert "?" not in re.sub(r"\x1b\[\?\d+[hl]", "", out.getvalue())
