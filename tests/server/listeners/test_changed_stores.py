"""Key stores and trust stores that are changed while the broker runs, under Kafka's rules."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kwire.base.errors import ErrorCode
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.net.client import ClientConnection
from kwire.server.broker import Broker
from kwire.testing.certificates import Authority
from tests.server.listeners.secured import Secured

HOST = "127.0.0.1"
PREFIX = "listener.name.ssl."
LOCATION = PREFIX + "ssl.keystore.location"
TRUST = PREFIX + "ssl.truststore.location"
Make = Callable[[str], Secured]


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:
        yield lambda protocol: Secured(tmp_path, protocol, stack)


async def change(connection: ClientConnection, *changes: tuple[str, str], broker: str = "1") -> tuple[str, str]:
    configs = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in changes]
    resource = AlterConfigsResource(resource_type=4, resource_name=broker, configs=configs)
    response = (await connection.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses[0]
    return ErrorCode(response.error_code).name, response.error_message or ""


def serial(connection: ClientConnection) -> int:
    """The serial number of the broker's certificate."""
    from cryptography.x509 import load_der_x509_certificate

    der = connection._socket.peer_certificate_der()
    return load_der_x509_certificate(der).serial_number


async def test_new_connections_get_the_new_certificate_and_old_ones_go_on(secured: Make, tmp_path: Path) -> None:
    listener = secured("SSL")
    broker = await listener.start()
    old = await listener.connect(broker)
    other = listener.authority.issue("broker", HOST, file="second")
    assert await change(old, (LOCATION, str(other))) == ("NONE", "")
    new = await listener.connect(broker)
    assert serial(new) != serial(old)
    for connection in (old, new):
        await connection.call(MetadataRequest(topics=[]), 12)


async def test_a_file_with_new_content_is_read_when_its_name_is_set_again(secured: Make, tmp_path: Path) -> None:
    listener = secured("SSL")
    broker = await listener.start()
    old = await listener.connect(broker)
    other = listener.authority.issue("broker", HOST, file="second")
    path = tmp_path / "broker.pem"
    assert await change(old, (LOCATION, str(path))) == ("NONE", "")
    shutil.copy(other, path)
    assert await change(old, (LOCATION, str(path))) == ("NONE", "")
    assert serial(await listener.connect(broker)) != serial(old)


@pytest.mark.parametrize(
    ("name", "hosts", "reason"),
    [
        ("another", (HOST,), "is not CN=broker"),
        ("broker", ("127.0.0.2",), "lacks the names IP:127.0.0.1"),
    ],
)
async def test_another_name_is_refused_unless_allowed(
    secured: Make, tmp_path: Path, name: str, hosts: tuple[str, ...], reason: str
) -> None:
    listener = secured("SSL")
    other = str(listener.authority.issue(name, *hosts, file="second"))
    broker = await listener.start()
    connection = await listener.connect(broker)
    error, text = await change(connection, (LOCATION, other))
    assert error == "INVALID_REQUEST"
    assert reason in text
    allowed = await listener.start(2, ssl_allow_dn_changes="true", ssl_allow_san_changes="true")
    assert await change(await listener.connect(allowed), (LOCATION, other), broker="2") == ("NONE", "")


async def test_a_store_that_cannot_be_used_is_refused_and_the_old_one_stays(secured: Make, tmp_path: Path) -> None:
    listener = secured("SSL")
    broker = await listener.start()
    connection = await listener.connect(broker)
    (tmp_path / "empty.pem").write_text("")
    for path in ("/no/such.pem", str(tmp_path / "empty.pem")):
        error, text = await change(connection, (LOCATION, path))
        assert error == "INVALID_REQUEST"
        assert "ssl.keystore.location" in text
    await (await listener.connect(broker)).call(MetadataRequest(topics=[]), 12)


async def test_the_stores_of_all_listeners_cannot_be_changed_at_once(secured: Make, tmp_path: Path) -> None:
    listener = secured("SSL")
    broker = await listener.start()
    connection = await listener.connect(broker)
    path = str(tmp_path / "broker.pem")
    assert (await change(connection, ("ssl.keystore.location", path)))[0] == "INVALID_REQUEST"
    assert (await change(connection, (LOCATION, path), broker=""))[0] != "NONE"
    assert (await change(connection, (PREFIX + "ssl.client.auth", "required")))[0] == "INVALID_REQUEST"


async def test_brokers_that_would_not_trust_each_other_are_refused(secured: Make, tmp_path: Path) -> None:
    listener, store = secured("SSL"), MemoryStore()
    broker: Broker = await listener.start(1, store)
    connection = await listener.connect(broker)
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    error, text = await change(connection, (LOCATION, str(stranger.issue("broker", HOST))))
    assert (error, "would not trust each other" in text) == ("INVALID_REQUEST", True)
    error, text = await change(connection, (TRUST, str(stranger.path)))
    assert (error, "would not trust each other" in text) == ("INVALID_REQUEST", True)
