"""What brokers do: rates between two looks, latencies, and how their disks fill.

Every broker answers how long its log directories and partitions are, so that growth, and the messages written to the
partitions it leads, come from the protocol. Bytes sent, requests and their latencies do not: a broker of kwire with an
endpoint for Prometheus tells them there; Apache Kafka tells them to JMX only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kwire.cli.configs.requests import TYPES
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.offsets import Partition
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.console.api.scraping import LOGIN, PROPERTY, TLS, Metrics, NoMetrics, endpoint, scrape
from kwire.console.api.sizes import in_time, log_dirs, offsets

APART_S: Final = 2.0
"""Two looks at least so far apart make a rate."""
SPAN_S: Final = 30.0
"""Rates are means over at most so long."""
PARTITIONS_MAX: Final = 2000
"""In a larger cluster the ends of all partitions are not asked for every few seconds."""
SAMPLES_MAX: Final = 16


class BrokerRate(NamedTuple):
    """A broker. A second: ``messages_in``, ``bytes_in``, ``bytes_out``, ``requests``, and ``growth``, the bytes by
    which its logs have grown. ``answer_ms``: how long it took to answer a small request; ``produce_ms``, ``fetch_ms``:
    99 of 100 took less. None: not known (yet); ``metrics_error`` says why its metrics are not."""

    id: int
    messages_in: float | None
    bytes_in: float | None
    bytes_out: float | None
    requests: float | None
    growth: float | None
    answer_ms: float | None
    produce_ms: float | None
    fetch_ms: float | None
    metrics_error: str | None


class _Sample(NamedTuple):
    """A look at all brokers."""

    time_s: float
    metrics: Mapping[int, Metrics]
    ends: Mapping[Partition, tuple[int, int]]  # leader, end
    held: Mapping[int, int]


class Rates:
    """The last looks at one cluster."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES_MAX)

    async def rates(self, cluster: Cluster) -> list[BrokerRate]:
        """Look at the cluster; the rates since an earlier look. `CommandError`."""
        metadata = await cluster.metadata()
        nodes = {each.node_id: each.host for each in metadata.brokers}
        told = await asyncio.gather(*(_metrics(cluster, *each) for each in nodes.items()))
        answered = await asyncio.gather(*(_answer_ms(cluster, node) for node in nodes))
        metrics = {node: each for node, each in zip(nodes, told, strict=True) if isinstance(each, Metrics)}
        ends = {} if len(metrics) == len(nodes) else await _ends(cluster, metadata.topics)
        now = _Sample(asyncio.get_running_loop().time(), metrics, ends, await _held(cluster))
        before = self._before(now)
        found = zip(nodes, told, answered, strict=True)
        rows = [_row(node, each, answer_ms, before, now) for node, each, answer_ms in found]
        return sorted(rows, key=lambda row: row.id)

    def _before(self, now: _Sample) -> _Sample | None:
        """The look with which ``now`` is compared, which is kept for those that follow."""
        while self._samples and now.time_s - self._samples[0].time_s > SPAN_S:
            self._samples.popleft()
        before = self._samples[0] if self._samples else None
        if before is None or now.time_s - self._samples[-1].time_s >= APART_S:
            self._samples.append(now)
        return before if before is not None and now.time_s - before.time_s >= APART_S else None


def _row(
    node: int, told: Metrics | NoMetrics, answer_ms: float | None, before: _Sample | None, now: _Sample
) -> BrokerRate:
    """What is known of a broker. ``before``: None with the first look."""
    row = BrokerRate(node, None, None, None, None, None, answer_ms, None, None, None)
    if isinstance(told, Metrics):
        row = row._replace(produce_ms=told.produce_ms, fetch_ms=told.fetch_ms)
    else:
        row = row._replace(metrics_error=str(told))
    if before is None:
        return row
    seconds = now.time_s - before.time_s
    old, new = before.metrics.get(node), now.metrics.get(node)
    if old is not None and new is not None and old.requests <= new.requests:  # it has not started anew
        messages_in, bytes_in, bytes_out, requests = (
            round((value - then) / seconds, 1) for then, value in zip(old.counters(), new.counters(), strict=True)
        )
        row = row._replace(messages_in=messages_in, bytes_in=bytes_in, bytes_out=bytes_out, requests=requests)
    elif before.ends and now.ends:
        row = row._replace(messages_in=round(_written(before, now, node) / seconds, 1))
    if node in before.held and node in now.held:
        row = row._replace(growth=round((now.held[node] - before.held[node]) / seconds, 1))
    return row


def _written(before: _Sample, now: _Sample, node: int) -> int:
    """Offsets that have come to the partitions that a broker leads."""
    return sum(
        max(end - before.ends[each][1], 0)
        for each, (leader, end) in now.ends.items()
        if leader == node and each in before.ends
    )


async def _metrics(cluster: Cluster, node: int, host: str) -> Metrics | NoMetrics:
    """The metrics of a broker, or why there are none."""
    wanted = DescribeConfigsResource(
        resource_type=TYPES["broker"], resource_name=str(node), configuration_keys=[PROPERTY, LOGIN, TLS]
    )
    answer = await in_time(cluster.call(DescribeConfigsRequest(resources=[wanted]), node))
    if answer is None or answer.results[0].error_code:
        return NoMetrics("the broker does not tell its configuration")
    values = {each.name: each.value for each in answer.results[0].configs}
    try:
        address = endpoint(values.get(PROPERTY), host, login=bool(values.get(LOGIN)), tls=bool(values.get(TLS)))
        return await scrape(address, node)
    except NoMetrics as reason:
        return reason


async def _answer_ms(cluster: Cluster, node: int) -> float | None:
    """Milliseconds until a broker has answered ApiVersions, through a connection that is open."""

    async def ask() -> float:
        await cluster.has(ApiVersionsRequest.API_KEY, node)  # connects
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await cluster.call(ApiVersionsRequest(), node, 0)
        return round((loop.time() - began_s) * 1000, 2)

    return await in_time(ask())


async def _ends(cluster: Cluster, topics: Any) -> dict[Partition, tuple[int, int]]:
    """Leaders and ends of all partitions; nothing where they are too many."""
    leaders = {(topic.name, each.partition_index): each.leader_id for topic in topics for each in topic.partitions}
    if len(leaders) > PARTITIONS_MAX:
        return {}
    found = await offsets(cluster, topics)
    return {each: (leaders[each], end) for each, (_, end) in found.items()}


async def _held(cluster: Cluster) -> dict[int, int]:
    """Bytes of the replicas of each broker that answers."""
    return {
        node: sum(part.partition_size for each in answer.results for topic in each.topics for part in topic.partitions)
        for node, answer in (await log_dirs(cluster, None)).items()
    }
