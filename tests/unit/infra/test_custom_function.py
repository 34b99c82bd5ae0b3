"""A function of the user in place of ours."""

from __future__ import annotations

import msgspec
import pytest

from webmill.infra.custom_function import CustomFunction, load_function, result_type


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_structs_of_a_file_may_hold_structs_of_that_file(future: str) -> None:
    source = f"""{future}import msgspec

class Inner(msgspec.Struct):
    n: int

class Outer(msgspec.Struct):
    many: list[Inner]

def document(page) -> Outer | None:
    return Outer([Inner(1)])
"""
    made = load_function(CustomFunction(name="document", file="mine.py", source=source))
    kind = result_type(made)
    assert kind is not None
    assert msgspec.json.decode(b'{"many": [{"n": 1}]}', type=kind) == made(None)  # type: ignore[arg-type]
