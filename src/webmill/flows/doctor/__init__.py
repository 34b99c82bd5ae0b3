"""What a machine, a collection and its servers can promise, and how to repair what they cannot.

    for finding in chain(machine(), collection_findings(root, read_data=False), redis(url)): …

Nothing is changed by looking; `sweep` removes what dead processes have left.
"""

from webmill.flows.doctor.collection import collection_findings, sweep, would_sweep
from webmill.flows.doctor.findings import Finding
from webmill.flows.doctor.machine import machine
from webmill.flows.doctor.servers import queue, redis, versions

__all__ = ["Finding", "collection_findings", "machine", "queue", "redis", "sweep", "versions", "would_sweep"]
