"""Random topologies through Kafka's `InternalTopicManager` and kwire's `configure`: no difference is allowed.

    .venv/bin/python -m campaigns.streams_groups.topology --cases 100000 --seed 1

A case is a topology of up to five subtopologies as a client sends it, and the topics of a cluster. Most topologies make
sense; the others have loops, copartition groups that do not fit, topics with other numbers of partitions, names twice.
Compared are the error, or the status with its text, the topics to create with their properties, in order, the number of
tasks, the record, the description of the group, and the partitions that tasks read. A line of JSON is printed, then the
first differences. The exit status is 1 if there is any.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final

from campaigns.java.oracle import OracleCampaign
from harness.paths import ROOT
from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec import protocol
from kwire.codec.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from kwire.codec.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from kwire.coordinator.groups.streams.topology import checks, configure, convert, endpoints
from kwire.coordinator.runtime.java_hash import string_order

SOURCE: Final = ROOT / "campaigns" / "java" / "StreamsTopologyOracle.java"
SUBTOPOLOGIES: Final = ("0", "1", "2", "10", "ä", "\ufb01", "\U0001f600")
SOURCES: Final = ("orders", "users", "clicks", "Äpfel", "s-1", "s-2")
PROPERTIES: Final = ("cleanup.policy", "retention.ms", "segment.bytes", "message.timestamp.type")
COUNTS: Final = (1, 1, 2, 2, 3, 4, 6)


class Case:
    """A topology with the topics of a cluster."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._rare = 0.0 if chance.random() < 0.6 else 0.2
        self._repartition = chance.sample([f"app-{number}-repartition" for number in range(9)], chance.randrange(5))
        names = chance.sample(SUBTOPOLOGIES, chance.randrange(1, 6))
        sources = [[] if chance.random() < 0.3 else chance.sample(SOURCES, chance.randrange(1, 4)) for _ in names]
        read_by = [chance.randrange(len(names)) for _ in self._repartition]
        self.topology = Topology(
            epoch=-1 if self._odd(0.1) else chance.randrange(3),
            subtopologies=[
                self._subtopology(
                    "0" if self._odd(0.1) else name,
                    sources[at],
                    [topic for topic, reader in zip(self._repartition, read_by, strict=True) if reader == at],
                )
                for at, name in enumerate(names)
            ],
        )
        self._write_repartition_topics(read_by)
        self.existing = self._topics()
        self.tasks = {
            one.subtopology_id: chance.sample(range(7), chance.randrange(1, 5))
            for one in chance.sample(self.topology.subtopologies, chance.randrange(len(names) + 1))
        }

    def question(self) -> str:
        """The line that asks Java."""
        request = protocol.encode(StreamsGroupHeartbeatRequest(group_id="g", topology=self.topology), 0)
        return json.dumps([request.hex(), self.existing, self.tasks])

    def answer(self) -> str:
        """kwire's answer, in the oracle's form."""
        try:
            return json.dumps(self._answer(), ensure_ascii=False, separators=(",", ":"))
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
                return error.code.name
            return f"{error.code.name} {error.message}"

    def _answer(self) -> dict[str, Any]:
        checks.check_topology(self.topology)
        topology = convert.from_heartbeat(self.topology)
        record = convert.to_record(topology)
        assert convert.from_record(record) == topology
        configured = configure.configure(topology, self.existing.get)
        answer: dict[str, Any] = {"record": protocol.encode_record(record, 0).hex(), "ready": configured.ready}
        if configured.problem is not None:
            answer |= {"status": configured.problem.status, "detail": configured.problem.detail}
        answer["create"] = [[*topic] for topic in configured.to_create]
        answer["tasks"] = {one: each.tasks for one, each in (configured.subtopologies or {}).items()}
        described = DescribedGroup(topology=convert.describe(topology, configured))
        answer["described"] = protocol.encode(StreamsGroupDescribeResponse(groups=[described]), 0).hex()
        answer["required"] = topology.required_topics()
        inputs = {topic for one in topology.subtopologies.values() for topic in one.inputs}
        answer["readers"] = {topic: topology.subtopology_of(topic) for topic in sorted(inputs, key=string_order)}
        if configured.ready and configured.subtopologies is not None:
            answer["partitions"] = endpoints.topic_partitions(self.tasks, configured.subtopologies, self.existing.get)
        return answer

    def _odd(self, chance: float) -> bool:
        """Whether something is wrong here."""
        return self._rare > 0 and self._chance.random() < chance * self._rare

    def _subtopology(self, name: str, sources: list[str], repartition: list[str]) -> Subtopology:
        chance = self._chance
        prefix = f"app-{SUBTOPOLOGIES.index(name)}"
        changelogs = [f"{prefix}-{number}-changelog" for number in range(chance.choice((0, 0, 1, 2, 4)))]
        if not sources and not repartition and not self._odd(1):
            sources = [chance.choice(SOURCES)]
        if changelogs and self._odd(0.5):
            changelogs.append(changelogs[0])
        if sources and self._odd(0.5):
            sources = [*sources, chance.choice(sources)]
        return Subtopology(
            subtopology_id=name,
            source_topics=sources,
            state_changelog_topics=[self._topic(topic, 2 if self._odd(0.5) else 0) for topic in changelogs],
            repartition_source_topics=[
                self._topic(topic, -1 if self._odd(0.5) else chance.choice((0, 0, 0, 1, 2, 4))) for topic in repartition
            ],
            copartition_groups=self._copartition_groups(sources, repartition),
        )

    def _topic(self, name: str, partitions: int) -> TopicInfo:
        chance = self._chance
        keys = chance.sample(PROPERTIES, chance.randrange(4))
        if keys and self._odd(0.5):
            keys.append(keys[0])
        configs = [KeyValue(key=key, value=str(chance.randrange(9))) for key in keys]
        return TopicInfo(
            name=name, partitions=partitions, replication_factor=chance.choice((0, 0, 1, 3)), topic_configs=configs
        )

    def _copartition_groups(self, sources: list[str], repartition: list[str]) -> list[CopartitionGroup]:
        chance = self._chance
        groups = []
        for _ in range(chance.choice((0, 0, 1, 2))):
            group = CopartitionGroup(
                source_topics=[at for at in range(len(sources)) if chance.random() < 0.4],
                repartition_source_topics=[at for at in range(len(repartition)) if chance.random() < 0.7],
            )
            if self._odd(0.5):
                chance.choice((group.source_topics, group.repartition_source_topics)).append(chance.choice((-1, 9)))
            groups.append(group)
        return groups

    def _write_repartition_topics(self, read_by: list[int]) -> None:
        """Most repartition topics are written by a subtopology before the one that reads them."""
        chance, subtopologies = self._chance, self.topology.subtopologies
        for topic, reader in zip(self._repartition, read_by, strict=True):
            if self._odd(0.5):
                continue
            writers = (
                subtopologies[1:] or subtopologies
                if reader == 0 or chance.random() < self._rare / 3
                else subtopologies[:reader]
            )
            chance.choice(writers).repartition_sink_topics.append(topic)

    def _topics(self) -> dict[str, int]:
        """The topics of the cluster. In many cases all have equally many partitions."""
        chance = self._chance
        common = chance.choice(COUNTS)
        alike = chance.random() < 0.6
        existing = {topic: common if alike else chance.choice(COUNTS) for topic in SOURCES if not self._odd(1)}
        internal = [
            topic
            for one in self.topology.subtopologies
            for topic in (*one.repartition_source_topics, *one.state_changelog_topics)
        ]
        presence = chance.choice((0.0, 0.5, 1.0, 1.0))
        for topic in internal:
            if chance.random() < presence:
                existing[topic.name] = topic.partitions if topic.partitions > 0 else common
                if self._odd(0.5):
                    existing[topic.name] += 1
        return existing


def _counts(answer: str) -> dict[str, int]:
    if not answer.startswith("{"):
        return {answer.split(" ", 1)[0]: 1}
    found = json.loads(answer)
    name = "ready" if found["ready"] else f"status {found['status']}"
    return {name: 1, "tasks": sum(found["tasks"].values()), "created": len(found["create"])}


CAMPAIGN: Final = OracleCampaign("streams_groups.topology", __doc__, SOURCE, Case, _counts, "topologies")
run, run_seeds = CAMPAIGN.run, CAMPAIGN.run_seeds

if __name__ == "__main__":
    raise SystemExit(CAMPAIGN.main())
