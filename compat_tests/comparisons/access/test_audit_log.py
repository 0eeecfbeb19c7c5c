"""The audit log: the lines of `kafka.authorizer.logger` for every request, on both brokers, without and with ACLs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.comparisons.access.acls import Acls
from compat_tests.comparisons.access.answers import lasting_answer
from compat_tests.comparisons.access.requests import CASES, Case, World
from compat_tests.comparisons.access.test_every_request import alice, ids  # noqa: F401 # fixtures
from compat_tests.comparisons.admin.requests import Wire, new_topic
from harness.observations import Observations
from harness.processes.secured import SecuredBroker
from harness.wire_client import WireClient
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.protocol import ApiKey

LOGGER = "kafka.authorizer.logger"
BROKER_LOGGER = 8
SET, DELETE = 0, 1
VICTIMS = 2000
"""The number of the first topic that DeleteTopics deletes here."""

_KAFKA_LINE = re.compile(
    r"(\w+) \S*: Principal = (\S+) is (\w+) operation = (\w+) from host = (\S+)"
    r" on resource = (\S+) for request = (\w+) with"
)


def lines_about(guarded: SecuredBroker, principal: str, text: str) -> set[tuple[str, ...]]:
    """(level, allowed or denied, operation, host, resource, request) of each line about a principal."""
    if guarded.kind == "kafka":
        found = [match.groups() for match in _KAFKA_LINE.finditer(text)]
        return {(level, what.lower(), *rest) for level, who, what, *rest in found if who == principal}
    lines = [json.loads(line) for line in text.splitlines() if f'"{LOGGER}"' in line]
    return {
        (line["level"], line["event"], line["operation"], line["host"], line["resource"], line["api"])
        for line in lines
        if line["principal"] == principal
    }


def is_needless(line: tuple[str, ...]) -> bool:
    """Whether a line is about what Apache Kafka asks without using the answer: topics that an unknown id names (none),
    properties of topics that were not created, and topics to delete that need not be described."""
    _, _, operation, _, resource, api = line
    return (
        resource == "Topic:LITERAL:"
        or (api, operation) == ("CreateTopics", "DESCRIBE_CONFIGS")
        or (api, operation) == ("DeleteTopics", "DESCRIBE")
    )


def is_of_automatic_creation(line: tuple[str, ...], case: Case) -> bool:
    """Whether a line is about the second request by which Apache Kafka creates a topic for Metadata."""
    return case.api is ApiKey.METADATA and line[-1] == "CreateTopics"


def set_level(guarded: SecuredBroker, operation: int, level: str | None) -> None:
    with WireClient(guarded.bootstrap) as client:
        config = AlterableConfig(name=LOGGER, config_operation=operation, value=level)
        resource = AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name="1", configs=[config])
        answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message


@pytest.fixture(scope="module")
def every_decision(guarded: SecuredBroker) -> Iterator[None]:
    """Every decision has its line."""
    set_level(guarded, SET, "TRACE")
    yield
    set_level(guarded, SET, "INFO")


@pytest.mark.usefixtures("every_decision")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_every_decision_has_its_line(
    guarded: SecuredBroker,
    ids: dict[str, bytes],  # noqa: F811
    acls: Acls,
    alice: WireClient,  # noqa: F811
    observe: Observations,
    case: Case,
) -> None:
    wire = Wire(guarded.bootstrap)
    if case.api is ApiKey.DELETE_TOPICS:
        wire.create(new_topic(f"victim{VICTIMS}"), new_topic(f"victim{VICTIMS + 1}"))
    for number, entries in enumerate(((), case.needs) if case.needs else ((),)):
        if entries:
            acls.create(*entries)
        before = len(guarded.log_text())
        answer: Any = lasting_answer(alice, case.message(World(ids, VICTIMS + number)), case.version)
        assert answer is not None
        lines = lines_about(guarded, "User:alice", guarded.log_text()[before:])
        lines = {line for line in lines if not is_needless(line) and not is_of_automatic_creation(line, case)}
        observe("with all ACLs" if entries else "without ACLs", sorted(map(list, lines)))
    if case.api is ApiKey.DELETE_TOPICS:
        wire.call(DeleteTopicsRequest(topic_names=[f"victim{VICTIMS + n}" for n in (0, 1)], timeout_ms=5000), 5)
    wire.close()
