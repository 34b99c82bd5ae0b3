"""Log lines on stderr: text for people, JSON for machines. Values from outside cannot forge a line, and addresses are
shown without their passwords."""

from __future__ import annotations

import logging
import sys
from copy import copy
from typing import TextIO

import msgspec

from webmill.masking import hide_secrets

LEVELS = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}
SENTENCE = "sentence"  # a key of an event: what text lines say instead of the event and its other keys
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", SENTENCE}
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {0x2028: "\\u2028", 0x2029: "\\u2029"}


class TextLines(logging.Formatter):
    """`12:30:01 WARNING index: torn member file=x offset=3`, one line whatever the values hold."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        shown = copy(record)
        shown.name = record.name.removeprefix("webmill.")
        sentence = vars(record).get(SENTENCE)
        if sentence:
            shown.msg, shown.args = sentence, None
        keys = "" if sentence else "".join(f" {key}={value}" for key, value in keys_of(record).items())
        return hide_secrets((super().format(shown) + keys).translate(_CONTROLS))


class JsonLines(logging.Formatter):
    """One JSON object per line, keys of the event beside `time`, `level`, `logger`, `event`."""

    def format(self, record: logging.LogRecord) -> str:
        event = {"time": record.created, "level": record.levelname, "logger": record.name, "event": record.getMessage()}
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        safe = {key: printable(value) for key, value in (event | keys_of(record)).items()}
        return hide_secrets(msgspec.json.encode(safe, enc_hook=repr).decode())


def keys_of(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def printable(value: object) -> object:
    """Lone surrogates (undecodable bytes) would break the encoder."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def configure(*, verbosity: int, form: str, stream: TextIO | None = None) -> None:
    """Set up webmill's loggers; the libraries below stay at warnings. A full disk under stderr never stops the work."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.raiseExceptions = False
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("webmill").setLevel(LEVELS.get(verbosity, logging.DEBUG))
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # a traceback for every lost connection
