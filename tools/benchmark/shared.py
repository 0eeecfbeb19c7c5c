"""Workloads of share groups (KIP-932): Kafka's own ShareConsumerPerformance reads with 1, 10 and 100 members.

The members of a row are the share consumers of one JVM, each with its default properties, which acknowledge what they
were given with their next request. All read the same topic of 10 partitions. The price is the broker's processor time,
in which reading, acquiring, writing the states, and the members' heartbeats are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tools.benchmark import frames, generator
from tools.benchmark.targets import Target
from tools.benchmark.workloads import SHARED, Facts, Workload

PARTITIONS = 10
_GROUP_RESOURCE = 32


@dataclass(frozen=True)
class ShareConsumers:
    """ShareConsumerPerformance with a number of members, on records that the load generator has written. ``run`` runs
    one of Kafka's tools and returns what it prints."""

    members: int
    records: int
    run: Callable[..., str]

    def __call__(self, target: Target, scale: float) -> Facts:
        """Read the records with a new share group, after a first run of the same members. See `Measure`."""
        topic = target.create_topic(PARTITIONS)
        group = f"share-{topic.name}-{self.members}"
        begin_at_start(target, group)
        records = max(int(self.records * scale), 1000 * self.members)
        batch, count = frames.batch_of(100, 16 * 1024)
        template = frames.produce(topic.id, list(range(PARTITIONS)), batch, count, -1)
        requests = (records + records // 4) // (count * PARTITIONS) + 2
        generator.run(target, [template], producers=1, inflight=5, requests=requests)
        common = ["--bootstrap-server", target.broker.bootstrap, "--topic", topic.name, "--group", group]
        common += ["--threads", str(self.members), "--hide-header", "--timeout", "30000"]
        self.run("ShareConsumerPerformance", *common, "--num-records", str(records // 5))
        before = target.cpu_s()
        said = self.run("ShareConsumerPerformance", *common, "--num-records", str(records))
        used = target.cpu_s() - before
        words = said.strip().splitlines()[-1].split(", ")
        read = float(words[5])
        assert read >= records, said
        topic.delete()
        reading_s = float(words[6]) / 1e3
        return {"records_s": read / reading_s, "cpu_s_per_million": used / read * 1e6}


def begin_at_start(target: Target, group: str) -> None:
    """Have a share group that is to be made read everything that is there."""
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=group, configs=[config])
    with target.client() as client:
        answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert not any(each.error_code for each in answer.responses), answer


def shared(run: Callable[..., str]) -> list[Workload]:
    """The workloads, on the brokers that stay up."""
    bounds = (("cpu_s_per_million", 0.7),)
    return [
        Workload(
            f"share-{members}",
            f"{members} member{'s' if members > 1 else ''}, {PARTITIONS} partitions",
            SHARED,
            ShareConsumers(members, records, run),
            "records_s",
            "cpu_s_per_million",
            bounds,
        )
        for members, records in ((1, 1_000_000), (10, 1_000_000), (100, 1_000_000))
    ]
