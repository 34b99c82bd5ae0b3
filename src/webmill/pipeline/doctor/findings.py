"""What a look at one part has found."""

from __future__ import annotations

from typing import Literal

import msgspec

FindingState = Literal["good", "doubt", "bad"]


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding. `doubt`: it works, but not as well or as surely as it could. `bad`: it cannot keep a promise."""

    part: str
    state: FindingState
    found: str
    promise: str = ""  # what this part keeps, as it is
    repair: str = ""
