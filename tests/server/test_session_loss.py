"""A broker whose session with the metadata store is over: fenced at once, clients sent away, back by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.raw_client import ConnectionClosed, RawClient
from harness.waiting import PATIENCE_S
from kwire.base.addresses import parse_address
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.server import session_loss
from kwire.server.broker import Broker


async def connect(broker: Broker) -> RawClient:
    return await RawClient.connect(Doors(), *parse_address(broker.bootstrap_servers))


async def error_of_a_read(client: RawClient) -> int:
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
    answer = await client.call(request, 7)
    return int(answer.topics[0].partitions[0].error_code)


async def test_a_broker_is_fenced_sends_its_clients_away_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_loss, "SEND_AWAY_S", 0.05)
    monkeypatch.setattr(session_loss, "REJOIN_S", 0.05)
    store = MemoryStore()
    async with Broker(log_dir=tmp_path, listeners="PLAINTEXT://127.0.0.1:0", store=store) as broker:
        client = await connect(broker)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
        assert await error_of_a_read(client) == ErrorCode.NONE
        epoch = broker.membership.broker_epoch
        store.available = False
        store.expire(next(iter(store.sessions)))
        assert await error_of_a_read(client) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    await client.call(MetadataRequest(topics=[]), 12)
        client.close()
        store.available = True
        assert broker.parts.session_loss.rejoining is not None
        await asyncio.wait_for(broker.parts.session_loss.rejoining, PATIENCE_S)
        async with await connect(broker) as client:
            assert await error_of_a_read(client) == ErrorCode.NONE
        assert broker.membership.broker_epoch > epoch


async def test_a_broker_without_a_session_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an authorizer: ACLs may have changed since, so the connection is closed at once."""
    monkeypatch.setattr(session_loss, "REJOIN_S", 0.05)
    store, authorizer = MemoryStore(), AclAuthorizer({"User:ANONYMOUS"})
    listener = "PLAINTEXT://127.0.0.1:0"
    async with Broker(log_dir=tmp_path, listeners=listener, store=store, authorizer=authorizer) as broker:
        client = await connect(broker)
        await client.call(MetadataRequest(topics=[]), 12)
        store.available = False
        store.expire(next(iter(store.sessions)))
        with pytest.raises(ConnectionClosed):
            await client.call(MetadataRequest(topics=[]), 12)
        client.close()
        store.available = True
        assert broker.parts.session_loss.rejoining is not None
        await asyncio.wait_for(broker.parts.session_loss.rejoining, PATIENCE_S)
        async with await connect(broker) as client:
            await client.call(MetadataRequest(topics=[]), 12)
