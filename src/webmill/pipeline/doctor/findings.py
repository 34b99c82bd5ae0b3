"""What a look at one part has found."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["good", "doubt", "bad"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`doubt`: it works, but not as well or as surely as it could. `bad`: a promise that it cannot keep."""

    part: str
    state: State
    found: str
    promise: str = ""  # what this part keeps, as it is
    repair: str = ""
