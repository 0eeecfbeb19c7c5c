"""Write a small data directory with an older version of kwire, for `tests/server/test_old_data.py` to open.

    .venv/bin/python -m tools.old_data COMMIT tests/old_data/NAME.tar.xz [--kill]

The code of COMMIT is taken from git and runs as a broker of its own, which is stopped in order or killed. The archive
has the directory (`data`) and what was acknowledged (`expected.json`): records with their offsets, committed offsets of
groups, a producer's last sequence. What that version does not support (transactions, groups of KIP-848) is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000
SEQUENCES = 5


class Writer:
    """What is written, and what the broker has acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.expected: dict[str, Any] = {
            "records": {},
            "groups": {},
            "producers": {},
            "now_ms": int(time.time() * 1000),
        }

    def run(self) -> dict[str, Any]:
        """Write all that this broker supports."""
        self._topics()
        for number, codec in enumerate(CODECS):
            self._plain(number * 10, codec)
        self._compacted()
        self._positions("classic", {0: 7, 1: 3})
        self._idempotent()
        if self._serves(24):
            self._transactions()
        if self._serves(68):
            self._modern_group()
        return self.expected

    def _serves(self, key: int) -> bool:
        from kwire.codec.messages.api_versions_request import ApiVersionsRequest

        with WireClient(self.bootstrap) as client:
            response = client.call(ApiVersionsRequest(client_software_name="old", client_software_version="1"), 3)
        return any(each.api_key == key for each in response.api_keys)

    def _topics(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        kept = {"retention.ms": "-1"}
        topics = [NewTopic("plain", 2, 1, config=kept), NewTopic("transactional", 1, 1, config=kept)]
        topics += [NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"})]
        topics += [NewTopic("idempotent", 1, 1, config={**kept, "min.insync.replicas": "1"}), NewTopic("gone", 1, 1)]
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for future in admin.create_topics(topics).values():
            future.result(30)
        admin.delete_topics(["gone"])["gone"].result(30)

    def _producer(self, **settings: Any) -> Any:
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, **settings})

    def _note(self, error: Any, message: Any) -> None:
        assert error is None, error
        place = f"{message.topic()}-{message.partition()}"
        value = message.value().decode()
        self.expected["records"].setdefault(place, []).append([message.offset(), value, message.timestamp()[1]])

    def _plain(self, first: int, codec: str) -> None:
        producer = self._producer(**{"compression.type": codec, "linger.ms": 100})
        for number in range(first, first + 10):
            producer.produce(
                "plain",
                f"{codec}-{number}" * 3,
                f"key-{number}",
                number % 2,
                on_delivery=self._note,
                timestamp=FIRST_MS + number,
                headers=[("number", b"%d" % number)],
            )
        producer.flush(30)

    def _compacted(self) -> None:
        producer = self._producer()
        for number in range(50):
            producer.produce("compacted", f"{number}", f"key-{number % 10}", on_delivery=self._note)
        producer.flush(30)

    def _positions(self, group: str, offsets: dict[int, int]) -> None:
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=f"at {offset}"
            )
            for index, offset in offsets.items()
        ]
        topic = OffsetCommitRequestTopic(name="plain", partitions=partitions)
        with WireClient(self.bootstrap) as client:
            client.call(FindCoordinatorRequest(key=group), 2)  # which makes the topic of the positions
            wait_until(lambda: self._commit(client, group, topic), 20, "positions committed")
        self.expected["groups"][group] = {str(index): offset for index, offset in offsets.items()}

    @staticmethod
    def _commit(client: WireClient, group: str, topic: OffsetCommitRequestTopic) -> bool:
        response = client.call(OffsetCommitRequest(group_id=group, topics=[topic]), 8)
        return not any(each.error_code for each in response.topics[0].partitions)

    def _idempotent(self) -> None:
        """Write with an idempotent producer; a later broker must accept its next sequence."""
        now_ms = self.expected["now_ms"]
        with WireClient(self.bootstrap) as client:
            told = client.call(InitProducerIdRequest(transactional_id=None), 2)
            for sequence in range(SEQUENCES):
                batch = build_batch(
                    [Record(offset=0, timestamp=now_ms, key=None, value=b"%d" % sequence)],
                    producer_id=told.producer_id,
                    producer_epoch=told.producer_epoch,
                    base_sequence=sequence,
                )
                data = PartitionProduceData(index=0, records=batch)
                topic = TopicProduceData(name="idempotent", partition_data=[data])
                response = client.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic]), 8)
                (part,) = response.responses[0].partition_responses
                assert part.error_code == 0, part.error_code
        values = [[sequence, str(sequence), now_ms] for sequence in range(SEQUENCES)]
        self.expected["records"]["idempotent-0"] = values
        self.expected["producers"] = {"id": told.producer_id, "epoch": told.producer_epoch, "next": SEQUENCES}

    def _transactions(self) -> None:
        """Write a committed and an aborted transaction, and leave one open."""
        for number, end in enumerate(("commit", "abort", "commit", "open")):
            producer = self._producer(**{"transactional.id": f"{end}-{number}"})
            producer.init_transactions(30)
            producer.begin_transaction()
            note = self._note if end == "commit" else None
            for _ in range(3):
                producer.produce("transactional", f"{end}-{number}", on_delivery=note)
            producer.flush(30)
            if end == "commit":
                producer.commit_transaction(30)
            elif end == "abort":
                producer.abort_transaction(30)

    def _modern_group(self) -> None:
        from confluent_kafka import Consumer

        settings = {"group.protocol": "consumer", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "modern", "log_level": 0, **settings})
        consumer.subscribe(["plain"])
        seen = 0
        while seen < 50:
            message = consumer.poll(30)
            seen += message is not None and message.error() is None
        consumer.commit(asynchronous=False)
        self.expected["groups"]["modern"] = {"0": 25, "1": 25}
        consumer.close()


def extract(commit: str, folder: Path) -> None:
    """The package as it was at a commit."""
    archive = subprocess.run(["git", "archive", commit, "kwire"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive, check=True)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--kill", action="store_true", help="end the broker with SIGKILL")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="old-data-") as name:
        home = Path(name)
        (home / "source").mkdir()
        extract(options.commit, home / "source")
        broker: Broker = make_broker("kwire", home)
        broker.source = home / "source"
        broker.start()
        try:
            expected = {"commit": options.commit, **Writer(broker.bootstrap).run()}
        finally:
            broker.kill() if options.kill else broker.stop()
        (home / "expected.json").write_text(json.dumps(expected, indent=1))
        with tarfile.open(options.archive, "w:xz") as archive:
            archive.add(home / "expected.json", "expected.json")
            archive.add(broker.data_dir, "data")
    print(f"{options.archive}: {options.archive.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
