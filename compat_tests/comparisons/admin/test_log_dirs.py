"""DescribeLogDirs and AlterReplicaLogDirs, on brokers with two data directories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from compat_tests.comparisons.admin.requests import Wire, new_topic
from compat_tests.comparisons.configs.requests import APPEND, BROKER, DELETE, SET, Configs
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.codec.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch


class TwoDirectories:
    """A broker with two entries in `log.dirs`, called "one" and "two"."""

    def __init__(self, broker: Broker, parent: Path) -> None:
        self.broker = broker
        self.wire = Wire(broker.bootstrap)
        self.paths = {"one": str(parent / "one"), "two": str(parent / "two")}
        self._names = {path: name for name, path in self.paths.items()}

    def describe(self, topics: Sequence[tuple[str, list[int]]] | None, version: int = 4) -> dict[str, Any]:
        requested = None
        if topics is not None:
            requested = [DescribableLogDirTopic(topic=name, partitions=ids) for name, ids in topics]
        response = self.wire.call(DescribeLogDirsRequest(topics=requested), version)
        assert response.error_code == 0
        return {self._names[result.log_dir]: result for result in response.results}

    def place_of(self, topic: str) -> dict[int, str]:
        """The directory of each partition, once no replica is being moved."""
        found: dict[int, str] = {}
        for name, result in self.describe(None).items():
            for each in result.topics:
                if each.name == topic:
                    for partition in each.partitions:
                        assert not partition.is_future_key
                        found[partition.partition_index] = name
        return found

    def create(self, partitions: int) -> None:
        """Create topic "t" and wait for all its logs (Apache Kafka creates them after the response)."""
        self.wire.create(new_topic("t", partitions))
        wait_until(lambda: len(self.place_of("t")) == partitions, 10, "the logs are there")

    def move(self, *moves: tuple[str, str, list[int]], version: int = 2) -> Any:
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=self.paths.get(path, path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=ids)]
                )
                for path, topic, ids in moves
            ]
        )
        response = self.wire.call(request, version)
        return sorted(
            (each.topic_name, sorted((one.partition_index, one.error_code) for one in each.partitions))
            for each in response.results
        )

    def sizes(self) -> list[int]:
        """The bytes of the only partition, in all directories."""
        results = self.describe([("t", [0])]).values()
        return [one.partition_size for result in results for topic in result.topics for one in topic.partitions]

    def settled_on(self, topic: str, places: dict[int, str]) -> bool:
        try:
            return self.place_of(topic) == places
        except AssertionError:
            return False


@pytest.fixture
def two(broker_factory: Callable[..., Broker], tmp_path: Path) -> Iterator[TwoDirectories]:
    parent = tmp_path / "dirs"
    parent.mkdir()
    settings = {"log.dirs": f"{parent / 'one'},{parent / 'two'}"}
    directories = TwoDirectories(broker_factory(settings, parent / "one"), parent)
    yield directories
    directories.wire.close()


def produce(wire: Wire, topic: str, count: int, index: int = 0) -> None:
    for number in range(count):
        data = build_batch([Record(offset=0, timestamp=1, key=b"k", value=b"%d" % number * 50, headers=[])])
        request = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=index, records=memoryview(data))]
                )
            ],
        )
        response = wire.call(request, 9)
        assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("version", range(1, 6))
def test_directories_are_described(two: TwoDirectories, observe: Observations, version: int) -> None:
    two.create(4)
    produce(two.wire, "t", 3)
    described = two.describe([("t", [0, 1, 2, 3, 9]), ("not-there", [0])], version)
    observe("directories", sorted(described))
    sizes: dict[int, Any] = {}
    for result in described.values():
        assert (result.total_bytes > 0) == (result.usable_bytes > 0) == (version >= 4)
        for topic in result.topics:
            assert topic.name == "t"
            for one in topic.partitions:
                sizes[one.partition_index] = [one.partition_size, one.offset_lag, one.is_future_key]
    observe("partitions", sizes)
    observe("asked for none", [len(result.topics) for result in two.describe([], version).values()])
    everything = two.describe(None, version)
    names = {topic.name for result in everything.values() for topic in result.topics}
    observe("all", sorted(names - {"__consumer_offsets"}))


def test_a_partition_moves_with_its_records(two: TwoDirectories, observe: Observations) -> None:
    two.create(1)
    produce(two.wire, "t", 40)
    (here,) = two.place_of("t").values()
    there = "two" if here == "one" else "one"
    observe("response", two.move((there, "t", [0])))
    wait_until(lambda: two.settled_on("t", {0: there}), 20, "the partition has moved")
    produce(two.wire, "t", 2)
    observe("size", two.sizes())
    two.broker.restart()
    two.wire.close()
    two.wire = Wire(two.broker.bootstrap)
    assert two.place_of("t") == {0: there}
    observe("size after restart", two.sizes())


def test_moves_that_cannot_be(two: TwoDirectories, observe: Observations) -> None:
    two.create(2)
    observe("unknown directory", two.move(("/nowhere", "t", [0, 9])))
    observe("relative directory", two.move(("one", "not-there", [0])) and two.move(("rel", "t", [0])))
    observe("empty path", two.move(("", "t", [0])))
    observe("unknown partition", two.move(("one", "t", [9]), ("two", "not-there", [0])))
    observe("no partitions", two.move(("one", "t", [])))
    observe("nothing", two.move())


@pytest.mark.parametrize("version", [1, 2])
def test_a_move_to_where_it_is_changes_nothing(two: TwoDirectories, observe: Observations, version: int) -> None:
    two.create(1)
    (here,) = two.place_of("t").values()
    observe("response", two.move((here, "t", [0]), version=version))
    assert two.place_of("t") == {0: here}


def test_cordoned_directories_get_no_new_replicas(two: TwoDirectories, observe: Observations) -> None:
    """KIP-1066."""
    client = WireClient(two.broker.bootstrap)
    configs, one = Configs(client), two.paths["one"]
    two.create(1)

    def cordon(operation: int, value: str | None, *names: str) -> Any:
        """Change the property, and wait until the broker says that these directories are cordoned."""
        answer = configs.change(BROKER, "1", ("cordoned.log.dirs", operation, value))

        def is_done() -> bool:
            return {name for name, each in two.describe(None, 5).items() if each.is_cordoned} == {*names}

        wait_until(is_done, 10, "the directories are as the property says")
        return answer

    observe("none", cordon(SET, ""))
    observe("one of them", cordon(SET, one, "one"))
    observe("new partitions", two.wire.codes(new_topic("u", 4)))
    wait_until(lambda: len(two.place_of("u")) == 4, 10, "the logs are there")
    observe("they lie in the other", set(two.place_of("u").values()))
    observe("a move into it", two.move(("one", "u", [0, 9]), ("one", "no-such", [0])))
    observe("both", cordon(APPEND, two.paths["two"], "one", "two"))
    wait_until(lambda: two.wire.codes(new_topic("x"), validate_only=True)["x"] != 0, 10, "the controller knows it")
    observe("no new topic", two.wire.codes(new_topic("v")))
    observe("by hand", two.wire.codes(new_topic("w", -1, -1, assignments=[(0, [1])])))
    for wrong in ("/nowhere", f"*,{one}", f"{one},/nowhere", "one", f"{one},{one}"):
        answer = configs.change(BROKER, "1", ("cordoned.log.dirs", SET, wrong))
        observe(f"wrong: {wrong}".replace(one, "ONE"), answer)
        observe(
            f"replaced by {wrong}".replace(one, "ONE"), configs.replace(BROKER, "1", [("cordoned.log.dirs", wrong)])
        )
    observe("for all brokers", configs.change(BROKER, "", ("cordoned.log.dirs", SET, "*")))
    observe("all", cordon(SET, "*", "one", "two"))
    observe("still no new topic", two.wire.codes(new_topic("v")))
    observe("one less", cordon(DELETE, None))
    wait_until(lambda: two.wire.codes(new_topic("x"), validate_only=True)["x"] == 0, 10, "the controller knows it")
    observe("a new topic", two.wire.codes(new_topic("v")))
    client.close()
