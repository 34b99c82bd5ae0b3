"""Session fixtures: the URL of a real server each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services import url_of


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with url_of("redis") as url:
        yield url


@pytest.fixture(scope="session")
def amqp_url() -> Iterator[str]:
    with url_of("rabbitmq") as url:
        yield url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with url_of("postgres") as url:
        yield url


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    with url_of("s3") as url:
        yield url


@pytest.fixture(scope="session")
def aws_url() -> Iterator[str]:
    """The endpoint of SQS and Kinesis."""
    with url_of("aws") as url:
        yield url
