"""Series of a broker's process, read from ``/proc`` (Linux; elsewhere there are none).

Clients of Prometheus in every language have the ``process_*`` series, so dashboards of the JMX exporter query them too.
Kafka itself counts what the process reads from and writes to disks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client import ProcessCollector

from kwire.metrics.mbeans import Sample

_DISK: Final = {
    "read_bytes": "kafka_server_kafkaserver_linux_disk_read_bytes",
    "write_bytes": "kafka_server_kafkaserver_linux_disk_write_bytes",
}


def of_process(pid: int) -> Iterator[Sample]:
    """Processor time, memory and open files of a process, and the bytes that it reads from and writes to disks."""
    for family in ProcessCollector(pid=lambda: pid, registry=None).collect():
        for sample in family.samples:
            suffix = sample.name.removeprefix(family.name)
            yield Sample(family.name, family.type, suffix, sample.labels, sample.value)
    for name, value in _io(pid):
        if name in _DISK:
            yield Sample(_DISK[name], "gauge", "", {}, value)


def _io(pid: int) -> Iterator[tuple[str, int]]:
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except OSError:  # no Linux, or the process has ended
        return
    for line in text.splitlines():
        name, _, value = line.partition(": ")
        yield name, int(value)
