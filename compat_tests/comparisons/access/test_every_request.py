"""Every API with every set of the ACLs that it needs: what alice is answered, and what she is refused.

The cases are in `requests`. For each case, alice gets every subset of its ACLs in turn and sends the request; the
answers of both brokers must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.comparisons.access.acls import Acls
from compat_tests.comparisons.access.answers import (
    answers_with_every_set,
    lasting_answer,
    log_in_as_alice,
    names_of,
    plain,
    prepared,
)
from compat_tests.comparisons.access.requests import CASES, ONE, TWO, WITHOUT_ACCESS_CONTROL, Case, World
from compat_tests.comparisons.admin.requests import Wire, new_topic
from harness.observations import Observations
from harness.processes.secured import SecuredBroker
from harness.wire_client import WireClient
from kwire.codec.errors import CodecError
from kwire.codec.protocol import ApiKey, encode
from kwire.handlers.registry import Registry

BY_ID_SINCE = {ApiKey.PRODUCE: 13, ApiKey.OFFSET_COMMIT: 10}
NAMES_LEADER_SINCE = 16
"""Fetch: from this version on, kwire names no leader to a replica that it does not know, because it is the leader."""


@pytest.fixture(scope="module")
def ids(guarded: SecuredBroker) -> dict[str, bytes]:
    """The ids of the topics, once there are topics and groups."""
    wire = Wire(guarded.bootstrap)
    wire.create(new_topic(ONE), new_topic(TWO))
    found = prepared(wire)
    wire.close()
    return found


@pytest.fixture
def alice(guarded: SecuredBroker) -> Iterator[WireClient]:
    """A connection of alice."""
    with log_in_as_alice(guarded.address("SASL_PLAINTEXT")) as client:
        yield client


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_answers_with_every_set_of_acls(
    guarded: SecuredBroker, ids: dict[str, bytes], acls: Acls, alice: WireClient, observe: Observations, case: Case
) -> None:
    wire = Wire(guarded.bootstrap)
    for granted, answer in answers_with_every_set(case, ids, wire, acls, alice):
        observe(granted, answer)
    wire.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_answers_in_every_version(
    guarded: SecuredBroker, ids: dict[str, bytes], acls: Acls, alice: WireClient, observe: Observations, case: Case
) -> None:
    """What alice is answered without ACLs and with all, in the versions that can say what the case says."""
    names = names_of(ids)
    message = case.message(World(ids, 1000))
    for entries in ((), case.needs) if case.needs and case.api is not ApiKey.JOIN_GROUP else ((),):
        if entries:
            acls.create(*entries)
        for version in versions_of(case, message):
            answer = lasting_answer(alice, message, version)
            observe(f"version {version} {'with' if entries else 'without'} ACLs", plain(answer, names))


def versions_of(case: Case, message: Any) -> Iterator[int]:
    """The versions in which a message can be encoded and names topics as the case does."""
    low, high = next((low, high) for key, low, high in Registry().advertised() if key == case.api)
    for version in range(low, high + 1):
        by_id = BY_ID_SINCE.get(case.api, 0)
        if (version >= by_id) != (case.version >= by_id) or (case.name == "replica" and version >= NAMES_LEADER_SINCE):
            continue
        try:
            encode(message, version)
        except CodecError:
            continue
        yield version


def test_every_served_api_has_a_case() -> None:
    served = {ApiKey(key) for key, _, _ in Registry().advertised()}
    assert served - {case.api for case in CASES} == WITHOUT_ACCESS_CONTROL
