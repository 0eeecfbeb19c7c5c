"""``kwire verify-log`` and ``kwire dump-log`` tell people what they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.base.uuids import uuid_to_text
from kwire.cli import main
from kwire.cli.record_decoders import plain
from kwire.codec.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kwire.codec.messages.offset_commit_value import OffsetCommitValue

TOPIC_ID = bytes(range(16))


def test_topic_ids_are_told_as_kafka_writes_them() -> None:
    assert plain(OffsetCommitValue(offset=7, topic_id=TOPIC_ID))["topic_id"] == uuid_to_text(TOPIC_ID)
    nested = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[TopicPartition(topic_id=TOPIC_ID)])
    assert plain(nested)["topic_partitions"][0]["topic_id"] == "AAECAwQFBgcICQoLDA0ODw"


def test_verifying_one_partition_says_which_directory_was_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    (partition / "00000000000000000000.log").touch()
    assert main(["verify-log", str(partition)]) == 1
    told = capsys.readouterr().err
    assert f"one partition's directory: verify the directory of log.dirs, {tmp_path / 'data'}" in told
    assert [each.name for each in partition.iterdir()] == ["00000000000000000000.log"]
