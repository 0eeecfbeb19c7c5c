"""The registry finds every declared API, imports it when it is used, and changes no declaration."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from kwire.codec.protocol import API_FACTS, ApiKey
from kwire.handlers.groups import heartbeat
from kwire.handlers.registry import Registry
from kwire.handlers.topics import create_topics
from tools import handler_index


def test_every_api_of_kafkas_brokers_is_there() -> None:
    """And Envelope, which Kafka's controllers serve."""
    keys = {key for key, facts in API_FACTS.items() if "broker" in facts.listeners}
    assert [int(api.key) for api in Registry()] == sorted(keys | {ApiKey.ENVELOPE})


def test_an_api_of_the_controller_is_forwarded_and_its_declaration_unchanged() -> None:
    declared = create_topics.API
    for registry in (Registry(), Registry()):
        loaded = registry.get(ApiKey.CREATE_TOPICS)
        assert loaded is not None and loaded.by_controller
        assert loaded.handle is not create_topics.handle
        assert registry.get(ApiKey.HEARTBEAT) is heartbeat.API
    assert create_topics.API is declared and declared.handle is create_topics.handle


def test_a_declaration_is_frozen_and_replaced_whole() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        heartbeat.API.pipelined = True  # type: ignore[misc]
    hidden = dataclasses.replace(heartbeat.API, advertised=None)
    assert (hidden.advertised, hidden.served, hidden.operations) == (None, (0, 4), heartbeat.operations)
    assert heartbeat.API.advertised == heartbeat.API.served


def test_the_index_is_what_the_modules_declare() -> None:
    assert handler_index.INDEX.read_text() == handler_index.render(), "run python -m tools.handler_index"


def test_a_handler_is_imported_with_the_first_request_of_its_api() -> None:
    code = "; ".join(
        (
            "import sys",
            "from kwire.handlers.registry import Registry",
            "registry = Registry()",
            "registry.advertised()",
            "print(*sys.modules)",
            "registry.get(0)",
            "print(*sys.modules)",
        )
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    before, after = map(str.split, output.splitlines())
    assert not [name for name in before if name.startswith(("kwire.handlers.data", "kwire.codec.messages.produce"))]
    assert "kwire.handlers.data.produce.handler" in after
    assert not {"kwire.handlers.data.fetch.handler", "kwire.handlers.refusals", "kwire.handlers.faults"} & set(after)


def test_an_api_takes_the_place_of_the_declared_one() -> None:
    registry = Registry(lambda api: dataclasses.replace(api, cancel_on_disconnect=True))
    assert all(api.cancel_on_disconnect for api in registry)
    registry.replace(heartbeat.API)
    assert registry.get(ApiKey.HEARTBEAT) is heartbeat.API
    assert not heartbeat.API.cancel_on_disconnect
