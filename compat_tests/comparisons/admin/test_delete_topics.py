"""DeleteTopics by name and id, valid and invalid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparisons.admin.requests import TopicReference, Wire, name_and_id, new_topic
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until
from kwire.base.uuids import ZERO_UUID
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState


def await_end(wire: Wire, topic: str) -> None:
    """Wait until Metadata has the deleted topic no more."""
    wait_until(lambda: wire.describe(topic)[topic]["error_code"] == 3, 10, "the topic is gone")


def delete(wire: Wire, *topics: TopicReference, version: int = 6, timeout_ms: int = 10_000) -> Any:
    """(name, whether it has an id, error code) of each result, sorted."""
    if version >= 6:
        states = [DeleteTopicState(**name_and_id(topic)) for topic in topics]
        request = DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    else:
        request = DeleteTopicsRequest(topic_names=[str(name) for name in topics], timeout_ms=timeout_ms)
    response = wire.call(request, version)
    return sorted(((each.name, each.topic_id != ZERO_UUID, each.error_code) for each in response.responses), key=str)


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes(
    wire: Wire, made: Callable[..., str], new_name: Names, observe: Observations, version: int
) -> None:
    name, missing = made(3), new_name()
    observe("response", delete(wire, name, missing, version=version))
    await_end(wire, name)
    observe("again", delete(wire, name, version=version))


def test_names_that_no_topic_has(wire: Wire, observe: Observations) -> None:
    observe("responses", [delete(wire, name) for name in ("", "a/b", "x" * 300)])
    observe("old version", [delete(wire, name, version=3) for name in ("", "a/b")])


def test_by_id(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made()
    topic_id = wire.id_of(name)
    observe("unknown id", delete(wire, bytes(range(16))))
    observe("known id", delete(wire, topic_id))
    observe("again", delete(wire, topic_id))


def test_what_contradicts_itself(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name, other = made(), made()
    topic_id = wire.id_of(name)
    observe("neither", delete(wire, (None, ZERO_UUID)))
    observe("both", delete(wire, (name, topic_id)))
    observe("name and id apart", delete(wire, name, topic_id))
    observe("id and name apart", delete(wire, topic_id, name))
    observe("name twice", delete(wire, name, name, other))
    observe("id twice", delete(wire, topic_id, topic_id))
    observe("unknown name twice", delete(wire, "not-there", "not-there"))
    observe("still there", wire.describe(name))


def test_a_client_that_does_not_wait_for_deletion(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    observe("response", delete(wire, made(), timeout_ms=0))


def test_an_empty_deletion(wire: Wire, observe: Observations) -> None:
    observe("response", delete(wire))


def test_a_topic_made_anew_is_another_one(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made(3)
    first = wire.id_of(name)
    delete(wire, name)
    await_end(wire, name)
    observe("created anew", wire.codes(new_topic(name, 1)))
    observe("as it is", wire.describe(name))
    assert wire.id_of(name) != first
    observe("by its old id", delete(wire, first))


def test_deletion_can_be_disabled(broker_factory: Callable[..., Broker], observe: Observations) -> None:
    wire = Wire(broker_factory({"delete.topic.enable": "false"}).bootstrap)
    wire.create(new_topic("kept"))
    observe("responses", {version: delete(wire, "kept", "missing", version=version) for version in (1, 2, 3, 6)})
    observe("still there", wire.describe("kept"))
    wire.close()
