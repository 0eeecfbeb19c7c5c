"""What commands print: tables for people, JSON, JSON Lines and YAML for programs."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
import yaml

from kwire.cli.output import cell, show, show_one


class Part(NamedTuple):
    number: int
    leader: int | None


class Thing(NamedTuple):
    name: str
    size_bytes: int
    parts: list[Part]


THINGS = [Thing("a", 1, [Part(0, None)]), Thing("größer", 1000, [])]
PLAIN = [
    {"name": "a", "size_bytes": 1, "parts": [{"number": 0, "leader": None}]},
    {"name": "größer", "size_bytes": 1000, "parts": []},
]


def test_a_table_aligns_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    show(THINGS, "table", ["name", "size_bytes"])
    assert capsys.readouterr().out == "NAME    SIZE BYTES\na                1\ngrößer        1000\n"


def test_a_table_of_nothing_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show([], "table")
    assert capsys.readouterr().out == ""


def test_json_lines_json_and_yaml_have_the_same_content(capsys: pytest.CaptureFixture[str]) -> None:
    show(THINGS, "json")
    assert json.loads(capsys.readouterr().out) == PLAIN
    show(THINGS, "jsonl")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == PLAIN
    show(THINGS, "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == PLAIN


def test_one_thing_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    show_one(THINGS[1], "json")
    assert json.loads(capsys.readouterr().out) == PLAIN[1]
    show_one(THINGS[1], "table")
    assert capsys.readouterr().out == "name        größer\nsize bytes  1000\nparts       -\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (False, "no"), (True, "yes"), ([1, 2], "1,2"), ([], "-"), ({"a": 1}, "a=1"), ("", "-")],
)
def test_values_in_tables(value: object, text: str) -> None:
    assert cell(value) == text


def test_the_status_of_a_cluster_is_an_object() -> None:
    from kwire.cli.cluster import status
    from kwire.codec.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
    from kwire.codec.messages.metadata_response import (
        MetadataResponse,
        MetadataResponsePartition,
        MetadataResponseTopic,
    )

    partitions = [
        MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]),
        MetadataResponsePartition(partition_index=1, leader_id=-1, replica_nodes=[3], isr_nodes=[]),
    ]
    brokers = [DescribeClusterBroker(broker_id=1, host="a", port=9092, rack="r")]
    found = status(
        DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=brokers),
        MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)]),
    )
    assert (found.well, found.topics, found.partitions) == (False, 1, 2)
    assert found.offline == ["t-1: no leader, replicas 3"]
    assert found.under_replicated == ["t-0: leader 1, not in sync 2"]
    assert [(each.id, each.live, each.leads, each.replicas) for each in found.brokers] == [
        (1, True, 1, 1),
        (2, False, 0, 1),
        (3, False, 0, 1),
    ]
