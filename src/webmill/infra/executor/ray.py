"""Run tasks on a Ray cluster: one of our own for this run (`ray:local`), one that the operator has started on this
machine (`ray:auto`), or one elsewhere (`ray:HOST:PORT`, `ray://HOST:PORT`).

Start a cluster with `ray start --head --disable-usage-stats`; webmill must be installed on its nodes. A cluster may
want a token: `AUTHENTICATION_HELP` says where Ray looks for it. Ray's own retries are off: attempts are counted here.
Ray does not say which signal ended a worker.
"""

from __future__ import annotations

import logging
import pickle
import socket
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from webmill.errors import Misconfigured, Unavailable
from webmill.infra import waiting
from webmill.infra.child_loop import Raised, flatten_error
from webmill.infra.executor.base import SOON, Attempt, I, O, Outcome, Outcomes, Pause, TaskDone, TaskSource

log = logging.getLogger(__name__)
CONNECT_DEADLINE = 10.0
FORMS = "ray:local, ray:auto, ray:HOST:PORT or ray://HOST:PORT"
AUTHENTICATION_HELP = (
    "a cluster with token authentication (the default of Ray 2.59 and later) wants the same token here: print it with "
    "`ray get-auth-token` on the head node, then set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, or put it into "
    "~/.ray/auth_token or the file that RAY_AUTH_TOKEN_PATH names"
)


class RayExecutor:
    def __init__(self, url: str, *, workers: int | None = None) -> None:
        """`workers` bounds the tasks in flight; by default as many as the cluster has CPUs when a run begins."""
        self._ray = import_ray()
        self._workers = workers
        self._ours = not self._ray.is_initialized()  # Ray has one connection per process
        if self._ours:
            connect(self._ray, url if url.startswith("ray://") else url.removeprefix("ray:"), workers=workers)

    def run(self, function: Callable[[I], O], items: Iterable[I | Pause], *, attempts: int = 3) -> Outcomes[I, O]:
        ray, code = self._ray, pickle.dumps(function)
        remote = ray.remote(max_retries=0)(run_task)
        workers = self._workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        source = TaskSource(items)
        running: dict[Any, Attempt[I]] = {}
        try:
            while True:
                while len(running) < workers and (attempt := source.take()):
                    try:
                        running[remote.remote(code, attempt.item)] = attempt
                    except TypeError as error:
                        yield attempt.failed(f"the item cannot be sent to a process: {error}")
                if not running:
                    if not source.paused:
                        return
                    waiting.sleep(SOON)
                    continue
                # With no timeout, Ctrl-C would wait for a task to end.
                patience = SOON if source.paused else 1.0
                for ref in ray.wait(list(running), num_returns=1, timeout=patience)[0]:
                    attempt = running.pop(ref)
                    outcome: Outcome[I, O] | None = self._settle(ref, attempt, last=attempt.number >= attempts)
                    if outcome is None:
                        source.give_back(attempt)
                    else:
                        yield outcome
        finally:
            for ref in running:
                ray.cancel(ref, force=True)

    def close(self) -> None:
        if self._ours:
            self._ray.shutdown()

    def _settle(self, ref: object, attempt: Attempt[I], *, last: bool) -> Outcome[I, O] | None:
        """Return the outcome, or None when the worker was lost and the item has attempts left."""
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:  # our own code raised, outside the task: an odd result
            return attempt.failed(f"the result cannot be sent: {error.cause}")
        except self._ray.exceptions.RayError as error:
            reason = f"the worker died: {type(error).__name__}: {str(error).strip()[:1000]}"
            log.warning("a worker died", extra={"index": attempt.index, "attempt": attempt.number, "reason": reason})
            return attempt.failed(reason) if last else None
        if isinstance(answer, Raised):
            return attempt.raised(answer)
        return TaskDone(attempt.index, attempt.item, answer[0])


def import_ray() -> ModuleType:
    try:
        import ray
    except ImportError as error:
        raise Misconfigured("the Ray executor needs an extra: pip install 'webmill[ray]'") from error
    return ray


def connect(ray: ModuleType, address: str, *, workers: int | None = None) -> None:
    """Connect to a cluster; `local` starts one with as many CPUs as `workers`, which ends with this process."""
    if address not in ("auto", "local"):
        check_reachable(address)
    ours = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **ours)
    except ray.exceptions.AuthenticationError as error:
        raise Misconfigured(f"the Ray cluster {address} refuses us: {AUTHENTICATION_HELP}") from error
    except ConnectionError as error:
        if address != "auto":
            raise Unavailable(
                f"the Ray cluster at {address} refuses the connection: {error}; {AUTHENTICATION_HELP}"
            ) from error
        repair = "start one with `ray start --head --disable-usage-stats`, or write ray:local or ray:HOST:PORT"
        raise Misconfigured(f"no Ray cluster runs on this machine: {repair}; {AUTHENTICATION_HELP}") from error


def check_reachable(address: str) -> None:
    """Raise Unavailable when nothing listens: Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or "@" in host or not port.isdigit():  # there are no passwords: one that was written is not repeated
        raise Misconfigured(f"this is not a Ray address; write {FORMS}")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_DEADLINE).close()
    except (OSError, OverflowError) as error:
        raise Unavailable(f"no Ray cluster answers at {host}:{port}: {error}") from error


def run_task(code: bytes, item: Any) -> object:
    """Run the task on the worker; return its value in a tuple, or what it raised, which Ray would wrap."""
    try:
        function = pickle.loads(code)  # noqa: S301 - it comes from the driver, as does all code Ray runs
    except Exception as error:  # noqa: BLE001 - whatever keeps the module from loading
        message = f"a Ray worker cannot load the task: {type(error).__name__}: {error}; install it on every node"
        return flatten_error(Misconfigured(message))
    try:
        return (function(item),)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any failure of a task is an outcome
        return flatten_error(error)
