"""What commands say to people."""

from __future__ import annotations

import pytest

from webmill.cli.context import hint, without_hints


def test_what_to_type_next_is_not_for_one_stage_of_many_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    with without_hints():
        hint("next: webmill index news/")
    assert capsys.readouterr().err == ""
    hint("next: webmill index news/")
    assert capsys.readouterr().err == "next: webmill index news/\n"
