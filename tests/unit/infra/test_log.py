"""A log line is one line, whatever the crawl dragged in."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from webmill.infra.log import SENTENCE, configure

NASTY = "http://x/\n12:00:00 ERROR forged\u2028\x1b[31m\udcff"


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root, ours, complain = logging.getLogger(), logging.getLogger("webmill"), logging.raiseExceptions
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], logging.raiseExceptions = handlers, complain
    root.setLevel(level)
    ours.setLevel(our_level)


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize("form", ["text", "json"])
def test_values_from_outside_cannot_forge_a_line(form: str) -> None:
    out = io.StringIO()
    configure(verbosity=1, form=form, stream=out)
    logging.getLogger("webmill.index").info("torn member", extra={"url": NASTY, "offset": 3})
    assert out.getvalue().count("\n") == 1
    assert "\x1b" not in out.getvalue()
    assert "\u2028" not in out.getvalue() or form == "json"


@pytest.mark.usefixtures("restored_logging")
def test_json_lines_carry_the_event_and_its_keys() -> None:
    out = io.StringIO()
    configure(verbosity=0, form="json", stream=out)
    try:
        raise ValueError("cause")
    except ValueError:
        logging.getLogger("webmill.x").exception("failed", extra={"path": object})
    event = json.loads(out.getvalue())
    assert (event["event"], event["level"], event["logger"]) == ("failed", "ERROR", "webmill.x")
    assert "ValueError: cause" in event["exception"]


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize(
    ("verbosity", "heard"), [(-1, ["e"]), (0, ["w", "e"]), (1, ["i", "w", "e"]), (2, list("diwe"))]
)
def test_verbosity_chooses_what_is_said(verbosity: int, heard: list[str]) -> None:
    out = io.StringIO()
    configure(verbosity=verbosity, form="json", stream=out)
    log = logging.getLogger("webmill.y")
    for print_line, event in ((log.debug, "d"), (log.info, "i"), (log.warning, "w"), (log.error, "e")):
        print_line(event)
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == heard


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_sentence_is_for_people_and_the_keys_for_machines(form: str) -> None:
    out = io.StringIO()
    configure(verbosity=0, form=form, stream=out)
    logging.getLogger("webmill.x").warning("opened", extra={"seconds": 3, SENTENCE: "100 % closed\nfor 3 s"})
    if form == "text":
        assert out.getvalue().endswith(" WARNING x: 100 % closed\\x0afor 3 s\n")
    else:
        event = json.loads(out.getvalue())
        assert (event["event"], event["seconds"], SENTENCE in event) == ("opened", 3, False)
