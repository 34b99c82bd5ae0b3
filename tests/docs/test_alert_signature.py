"""The check of a webhook's signature in the reference, as a reader would copy it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from tests.receivers import webhook
from webmill.infra.notify.backends import open_sender
from webmill.infra.notify.base import Notification, NotifyOptions

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "alerts.md"


def test_the_check_in_the_reference_takes_what_we_sign_and_nothing_else() -> None:
    code = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert code
    names: dict[str, Any] = {}
    exec(code[1], names)
    with webhook() as receiver:
        note = Notification(id="1", subject="", text="", html="", payload=b'{"a": 1}')
        open_sender(receiver.address, NotifyOptions(secret="key", allow_private=True)).send(note)
    (posted,) = receiver.taken
    headers = {"X-Webmill-Timestamp": "", "X-Webmill-Signature": ""}
    headers = {name: posted.headers[name.lower()] for name in headers}
    check = names["is_from_webmill"]
    assert check("key", headers, posted.body)
    assert not check("other", headers, posted.body)
    assert not check("key", headers, posted.body + b" ")
    assert not check("key", {**headers, "X-Webmill-Timestamp": str(int(time.time()) + 1000)}, posted.body)
