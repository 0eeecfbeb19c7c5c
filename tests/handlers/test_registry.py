"""The registry finds every declared API, and changes no declaration."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from kwire.codec.protocol import API_FACTS, ApiKey
from kwire.handlers.groups import heartbeat
from kwire.handlers.registry import Registry
from kwire.handlers.topics import create_topics


def test_every_api_of_kafkas_brokers_is_there() -> None:
    assert [int(api.key) for api in Registry.load()] == sorted(
        key for key, facts in API_FACTS.items() if "broker" in facts.listeners
    )


def test_an_api_of_the_controller_is_forwarded_and_its_declaration_unchanged() -> None:
    declared = create_topics.API
    for registry in (Registry.load(), Registry.load()):
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


def test_loading_imports_no_helper_that_only_tests_need() -> None:
    code = "import sys; from kwire.handlers.registry import Registry; Registry.load(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "kwire.handlers.data.produce.handler" in modules
    assert "kwire.handlers.faults" not in modules
