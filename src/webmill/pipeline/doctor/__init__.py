"""What a machine, a collection and its servers can promise, and how to repair what they cannot.

    for finding in chain(machine(), collection_findings(root, read_data=False), redis(url)): …

Nothing is changed by looking; `sweep` removes what dead processes have left.
"""

from webmill.pipeline.doctor.collection import collection_findings, sweep, would_sweep
from webmill.pipeline.doctor.findings import Finding
from webmill.pipeline.doctor.machine import machine
from webmill.pipeline.doctor.servers import queue, redis, versions

__all__ = ["Finding", "collection_findings", "machine", "queue", "redis", "sweep", "versions", "would_sweep"]
