"""The URL of a real server each, for the whole session; and nginx, which each test starts before its own folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.services import url_of
from tests.services.nginx import Nginx, nginx_serving


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


@pytest.fixture
def nginx() -> Iterator[Callable[..., Nginx]]:
    """`nginx(folder)` or `nginx(hosts=…)`: see tests/services/nginx.py."""
    with ExitStack() as stack:
        yield lambda *folder, **options: stack.enter_context(nginx_serving(*folder, **options))
