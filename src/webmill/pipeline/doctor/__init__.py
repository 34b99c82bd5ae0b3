"""What a machine, a collection and its servers can promise, and how to repair what they cannot.

    for finding in chain(machine(), collection_findings(root, read_data=False), redis(url)): …

Nothing is changed by looking; `sweep` removes what dead processes have left.
"""

from webmill.pipeline.doctor.collection import check_collection, describe_sweep, sweep
from webmill.pipeline.doctor.findings import DoctorFinding
from webmill.pipeline.doctor.machine import check_machine
from webmill.pipeline.doctor.servers import check_queue, check_redis, check_storage

__all__ = [
    "DoctorFinding",
    "check_collection",
    "check_machine",
    "check_queue",
    "check_redis",
    "check_storage",
    "describe_sweep",
    "sweep",
]
