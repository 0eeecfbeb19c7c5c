"""The lines of `kafka.authorizer.logger`: levels, fields, and what happens in a flood of denials."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.services import services_with
from kwire.base import logging
from kwire.base.limited_log import INTERVAL_S, KINDS_MAX
from kwire.cluster.metadata.acls import acl_key
from kwire.cluster.metadata.image import ClusterImage
from kwire.codec.protocol import ApiKey
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.handlers.audit.decisions import DENIALS_MAX, LOGGER_NAME
from kwire.handlers.context import Purpose, RequestContext
from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.security.principals import Principal

READ = Operation(AclOperation.READ, ResourceType.TOPIC, "orders")
DESCRIBE = READ._replace(operation=AclOperation.DESCRIBE)
CREATE = READ._replace(operation=AclOperation.CREATE)
ENTRIES = (
    AclBinding(
        ResourceType.TOPIC, "ord", PatternType.PREFIXED, "User:alice", "*", AclOperation.READ, PermissionType.ALLOW
    ),
    AclBinding(
        ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:*", "::1", AclOperation.ALL, PermissionType.DENY
    ),
)


class Audited:
    """An authorizer with `ENTRIES`, its clock and what it has logged."""

    def __init__(self, stream: io.StringIO) -> None:
        self.now_s = 0.0
        self.authorizer = AclAuthorizer({"User:root"}, monotonic=lambda: self.now_s)
        self.authorizer.follow(ClusterImage(acls={acl_key(each): each for each in ENTRIES}))
        self._stream = stream

    def context(self, name: str = "alice", host: str = "/10.0.0.1") -> RequestContext:
        """A request of a user."""
        services = services_with(authorizer=self.authorizer)
        fetch: dict[str, Any] = {"api_key": int(ApiKey.FETCH), "api_version": 12, "client_id": "shop"}
        return RequestContext(services, principal=Principal("User", name), client_host=host, **fetch)

    def lines(self) -> list[dict[str, Any]]:
        """The lines since the last call."""
        text = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def audited() -> Iterator[Audited]:
    stream = io.StringIO()
    logging.configure(stream=stream, as_json=True)
    yield Audited(stream)
    logging.unset_level(LOGGER_NAME)
    logging.configure()


def test_a_denial_is_one_line_that_says_who_what_from_where_and_by_which_rule(audited: Audited) -> None:
    assert not audited.authorizer.authorize(audited.context(), CREATE)
    (line,) = audited.lines()
    del line["timestamp"]
    assert line == {
        "event": "denied",
        "level": "INFO",
        "logger": "kafka.authorizer.logger",
        "principal": "User:alice",
        "operation": "CREATE",
        "resource": "Topic:LITERAL:orders",
        "host": "10.0.0.1",
        "client_id": "shop",
        "api": "Fetch",
        "api_version": 12,
        "rule": "DefaultDeny",
    }


@pytest.mark.parametrize("level", ["INFO", "DEBUG", "TRACE"])
def test_levels_are_those_of_kafka(audited: Audited, level: str) -> None:
    logging.set_level(LOGGER_NAME, level)
    request = audited.context()
    for purpose in Purpose:
        audited.authorizer.authorize(request, READ, purpose)
        audited.authorizer.authorize(request, CREATE, purpose)
    written = [(line["level"], line["event"]) for line in audited.lines()]
    expected = [
        ("DEBUG", "allowed"),  # ACCESS
        ("INFO", "denied"),
        ("DEBUG", "allowed"),  # CHOICE
        ("TRACE", "denied"),
        ("TRACE", "allowed"),  # REPORT
        ("TRACE", "denied"),
    ]
    assert written == [each for each in expected if logging.LEVELS[each[0]] >= logging.LEVELS[level]]


def test_a_kept_decision_is_logged_as_soon_as_the_level_asks_for_it(audited: Audited) -> None:
    request = audited.context()
    assert audited.authorizer.authorize(request, READ)
    assert audited.authorizer.has_allowed(request.decisions, READ)
    logging.set_level(LOGGER_NAME, "DEBUG")
    assert not audited.authorizer.has_allowed(request.decisions, READ), "a fast path would write no line"
    assert audited.authorizer.authorize(request, READ)
    assert [line["event"] for line in audited.lines()] == ["allowed"]


@pytest.mark.parametrize(
    ("name", "host", "operation", "rule"),
    [
        ("root", "/10.0.0.1", CREATE, "SuperUser"),
        ("alice", "/10.0.0.1", READ, "ALLOW READ to User:alice from * on Topic:PREFIXED:ord"),
        ("alice", "/10.0.0.1", DESCRIBE, "ALLOW READ to User:alice from * on Topic:PREFIXED:ord"),
        ("alice", "/::1", READ, "DENY ALL to User:* from ::1 on Topic:LITERAL:orders"),
        ("alice", "/10.0.0.1", READ._replace(resource_name="or"), "DefaultDeny"),
    ],
)
def test_the_line_names_the_entry_that_decides(
    audited: Audited, name: str, host: str, operation: Operation, rule: str
) -> None:
    logging.set_level(LOGGER_NAME, "DEBUG")
    audited.authorizer.authorize(audited.context(name, host), operation)
    assert [line["rule"] for line in audited.lines()] == [rule]


def test_a_flood_of_denials_is_bounded_and_counted(audited: Audited) -> None:
    request = audited.context()
    for _ in range(DENIALS_MAX + 7):
        audited.authorizer.authorize(request, CREATE)
    audited.authorizer.authorize(audited.context("bob"), CREATE)
    lines = audited.lines()
    assert len(lines) == DENIALS_MAX + 1, "what another client is denied still has its line"
    audited.now_s += INTERVAL_S
    audited.authorizer.authorize(request, CREATE)
    assert [line["left_out"] for line in audited.lines()] == [7]


def test_denials_of_very_many_principals_share_a_limit(audited: Audited) -> None:
    for number in range(KINDS_MAX + 3 * DENIALS_MAX):
        audited.authorizer.authorize(audited.context(f"user-{number}"), CREATE)
    assert len(audited.lines()) == KINDS_MAX + DENIALS_MAX


def test_with_debug_no_denial_is_left_out(audited: Audited) -> None:
    logging.set_level(LOGGER_NAME, "DEBUG")
    request = audited.context()
    for _ in range(2 * DENIALS_MAX):
        audited.authorizer.authorize(request, CREATE)
    assert len(audited.lines()) == 2 * DENIALS_MAX


def test_a_decision_by_type_has_the_line_of_the_resource_that_kafka_asks_about(audited: Audited) -> None:
    logging.set_level(LOGGER_NAME, "TRACE")
    audited.authorizer.authorize_some(audited.context(), AclOperation.READ, ResourceType.TOPIC)
    assert [(line["level"], line["resource"]) for line in audited.lines()] == [("TRACE", "Topic:LITERAL:hardcode")]
