"""The URL of a real server each, for the whole session; and nginx, which each test starts before its own folders."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.services import url_of
from tests.services.nginx import Nginx, nginx_serving
from tests.services.opensearch import wait_for
from tests.services.ray_cluster import ENVIRONMENT, RayCluster, ray_cluster
from webmill.infra.executor.ray import RayExecutor


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


@pytest.fixture(scope="session")
def meilisearch_url() -> Iterator[str]:
    """Without the name of an index."""
    with url_of("meilisearch") as url:
        yield url


@pytest.fixture(scope="session")
def opensearch_url() -> Iterator[str]:
    """Without the name of an index."""
    with url_of("opensearch") as url:
        wait_for(url)
        yield url


@pytest.fixture
def nginx() -> Iterator[Callable[..., Nginx]]:
    """`nginx(folder)` or `nginx(hosts=…)`: see tests/services/nginx.py."""
    with ExitStack() as stack:
        yield lambda *folder, **options: stack.enter_context(nginx_serving(*folder, **options))


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """A Ray cluster of two nodes, for all tests of a module: it takes many seconds to start."""
    os.environ.update(ENVIRONMENT)
    with ray_cluster() as cluster:
        yield cluster
    for name in ENVIRONMENT:
        del os.environ[name]


@pytest.fixture(scope="module")
def ray_executor(cluster: RayCluster) -> Iterator[RayExecutor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray announces changes of its defaults as warnings
        executor = RayExecutor(f"ray:{cluster.address}")
    yield executor
    executor.close()
