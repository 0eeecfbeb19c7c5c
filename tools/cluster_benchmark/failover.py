"""Kill a leader under load: how long each client gets no acknowledgement, and whether anything acknowledged is lost.

Every client writes at a steady rate (acks=all, otherwise its own defaults) to a topic of its own; one broker leads all
of these topics and is killed with SIGKILL. A client's time without a leader is the longest gap between two of its
acknowledgements from then on. There are two kills: of a broker that is not the controller, and of the controller. In
the end every acknowledged record is read at its offset.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from harness.kafka_jars import compile_java, java_command, kafka_classpath
from harness.processes.brokers import wait_until
from harness.processes.clusters import DEFAULTS, KAFKA, NODES, SHORT, Cluster, started
from kwire.codec.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.records import iter_headers, iter_records

JAVA = "Java"
CLIENTS = (JAVA, "librdkafka", "kafka-python", "aiokafka")
TIMEOUTS = {"default": DEFAULTS, "short": SHORT}
KILLS = ("leader", "controller")
RATE = 200
STEADY_S = 3.0
READY_S = 240.0
GAP_MAX_S = 90.0
ELECTED = "elected"
FETCH_VERSION = 13
FETCH_BYTES = 1 << 20

Facts = dict[str, float]


class Told(NamedTuple):
    """A client's note of a record: its number, the time (seconds, monotonic), its offset or the error."""

    number: int
    moment_s: float
    offset: int | None


def measure(
    kind: str,
    home: Path,
    timeouts: str,
    clients: Sequence[str],
    say: Callable[[str], None],
    kills: Sequence[str] = KILLS,
) -> Iterator[Facts]:
    """For each kill, the gaps in seconds, by "kill/client"; "kill/elected": until a running broker names another
    leader."""
    with started(kind, home, TIMEOUTS[timeouts]) as cluster:
        for kill in kills:
            found = _kill_under_load(cluster, kill, clients)
            shown = ", ".join(f"{name} {value:.2f} s" for name, value in found.items())
            say(f"{timeouts} timeouts, {kill} killed: {kind}: {shown}")
            yield {f"{kill}/{name}": value for name, value in found.items()}


def controller(cluster: Cluster) -> int:
    """The node id of the controller."""
    node = cluster.running()[0]
    if cluster.kind != KAFKA:
        return int(cluster.metadata(node, []).controller_id)
    asked = DescribeQuorumRequest(
        topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
    )
    with cluster.client(node) as client:
        return int(client.call(asked, 2).topics[0].partitions[0].leader_id)


def _kill_under_load(cluster: Cluster, kill: str, clients: Sequence[str]) -> Facts:
    decides = controller(cluster)
    victim = decides if kill == "controller" else next(node for node in NODES if node != decides)
    topics = {client: f"{kill}-{client}" for client in clients}
    for topic in topics.values():
        cluster.create_led_by(topic, victim)
    cluster.until(lambda: cluster.all_lead(len(topics), topics.values()), "all lead")
    with contextlib.ExitStack() as stack:
        files = {
            client: stack.enter_context(_producing(cluster, client, topic, cluster.home / topic))
            for client, topic in topics.items()
        }
        wait_until(lambda: all(_acked(file) for file in files.values()), READY_S, "all clients are acknowledged")
        time.sleep(STEADY_S)
        killed_s = cluster.kill(victim)
        cluster.until(lambda: _led_anew(cluster, topics.values(), victim), "others lead", interval_s=0.01)
        elected_s = time.monotonic() - killed_s
        wait_until(lambda: all(_goes_on(file, killed_s) for file in files.values()), GAP_MAX_S, "all go on", 0.1)
        time.sleep(STEADY_S)
    gaps = {client: _gap_s(file, killed_s) for client, file in files.items()}
    for client, topic in topics.items():
        _require_all(cluster, topic, files[client])
    cluster.begin(victim)
    cluster.await_all()
    cluster.until(lambda: cluster.in_sync(topics.values()), "all in sync again")
    return {**gaps, ELECTED: elected_s}


def _led_anew(cluster: Cluster, topics: Iterable[str], victim: int) -> bool:
    told = cluster.metadata(cluster.running()[0], topics).topics
    return all(partition.leader_id not in (-1, victim) for topic in told for partition in topic.partitions)


# Clients


@contextlib.contextmanager
def _producing(cluster: Cluster, client: str, topic: str, file: Path) -> Iterator[Path]:
    """A running client; its file is complete afterwards."""
    words = [cluster.bootstrap, topic, str(RATE), str(file)]
    if client == JAVA:
        classes = compile_java(Path(__file__).parent.glob("*.java"))
        command = java_command("-cp", f"{kafka_classpath()}:{classes}", "SteadyProducer", *words)
    else:
        command = [sys.executable, "-m", "tools.cluster_benchmark.producer", client, *words]
    log = file.with_suffix(".log")
    with open(log, "wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, start_new_session=True)
    try:
        yield file
        process.communicate(b"\n", GAP_MAX_S)
        assert process.returncode == 0, f"{client}: {log.read_text()[-2000:]}"
    finally:
        process.kill()
        process.wait()


def told(file: Path) -> list[Told]:
    """All notes of a client so far."""
    if not file.exists():
        return []
    lines = file.read_text().splitlines(keepends=True)
    found = []
    for words in (line.split() for line in lines if line.endswith("\n")):
        found.append(Told(int(words[0]), int(words[1]) / 1e9, int(words[2]) if words[2].isdecimal() else None))
    return found


def _acked(file: Path) -> bool:
    return any(each.offset is not None for each in told(file))


def _goes_on(file: Path, since_s: float) -> bool:
    """Whether a record was sent and acknowledged after the kill: as many as there are in a second."""
    return sum(each.offset is not None and each.moment_s > since_s + 0.05 for each in told(file)) > RATE


def _gap_s(file: Path, killed_s: float) -> float:
    moments = sorted(each.moment_s for each in told(file) if each.offset is not None)
    return max(after - before for before, after in pairwise(moments) if after > killed_s)


def _require_all(cluster: Cluster, topic: str, file: Path) -> None:
    """Check that every acknowledged record is at its offset."""
    acked = {each.offset: each.number for each in told(file) if each.offset is not None}
    found = read(cluster, topic)
    lost = {offset: number for offset, number in acked.items() if found.get(offset) != number}
    assert not lost, f"{topic}: {len(lost)} of {len(acked)} acknowledged records are lost, as {list(lost.items())[:3]}"


def read(cluster: Cluster, topic: str) -> dict[int, int]:
    """The committed numbers in partition 0, by offset."""
    node = cluster.running()[0]
    told_topic = cluster.metadata(node, [topic]).topics[0]
    found: dict[int, int] = {}
    position = 0
    with cluster.client(told_topic.partitions[0].leader_id) as client:
        while True:
            asked = FetchPartition(partition=0, fetch_offset=position, partition_max_bytes=FETCH_BYTES)
            topics = [FetchTopic(topic_id=told_topic.topic_id, partitions=[asked])]
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, topics=topics)
            data = client.call(request, FETCH_VERSION).responses[0].partitions[0]
            assert not data.error_code, (topic, data.error_code)
            view = memoryview(data.records or b"")
            for at, header in iter_headers(view, allow_partial=True):
                records = iter_records(view[at : at + header.size], max_bytes=FETCH_BYTES)
                found.update((record.offset, int(record.value or b"-1")) for record in records)
            if position == max(found, default=-1) + 1:
                return found
            position = max(found) + 1
