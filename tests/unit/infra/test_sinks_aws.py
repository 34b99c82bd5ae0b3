"""Addresses of SQS and Kinesis, and the extra they need. The rest is in tests/services/test_aws_sinks.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from webmill.errors import Misconfigured
from webmill.infra.sinks.aws import AwsAddress
from webmill.infra.sinks.backends import open_stream


def test_an_address_says_all() -> None:
    url = "sqs://KEY:se%2Fcret@Jobs.fifo?region=eu-west-1&endpoint=http://127.0.0.1:5000&max_bytes=65536"
    address = AwsAddress.from_url(url)
    assert (address.name, address.access_key, address.secret_key) == ("Jobs.fifo", "KEY", "se/cret")
    assert (address.region, address.endpoint, address.max_bytes) == ("eu-west-1", "http://127.0.0.1:5000", 65536)
    assert "cret" not in f"{address} {address!r} {address.__rich_repr__()}"


@pytest.mark.parametrize(
    "rest",
    ["", "?region=x", "q?regoin=x", "q/more", "q#part", "q?max_bytes=many", "KEY:SECRET@", "q?access_key=SECRET"],
)
def test_a_wrong_address_is_told_without_its_secret(rest: str) -> None:
    with pytest.raises(Misconfigured, match=r"SCHEME://\[KEY:SECRET@\]NAME") as caught:
        AwsAddress.from_url(f"sqs://{rest}")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqs://q?region=us-east-1&max_bytes=100", "max_bytes is 16384 to 1048576"),
        ("kinesis://s?region=us-east-1&max_bytes=65536", "max_bytes is for SQS"),
        ("kinesis://s?region=us-east-1&endpoint=nonsense", "nonsense"),
        ("sns://topic", "use sqs://QUEUE or kinesis://STREAM"),
    ],
)
def test_a_wrong_setting_is_told(url: str, sentence: str) -> None:
    with pytest.raises(Misconfigured, match=sentence):
        open_stream(url, str)


def test_no_region_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    with pytest.raises(Misconfigured, match=r"add \?region="):
        open_stream("kinesis://s", str)


def test_the_missing_extra_is_named() -> None:
    opening = "from webmill.infra.sinks.backends import open_stream; open_stream('sqs://q', str)"
    program = f"import sys; sys.modules['boto3'] = None; {opening}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Misconfigured: SQS and Kinesis need an extra: pip install 'webmill[sqs]'" in ended.stderr
