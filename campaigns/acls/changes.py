"""Random changes of ACLs under load: what the brokers answer meanwhile must rest on the newest one.

    .venv/bin/python -m campaigns.acls.changes --broker kwire --seconds 60 --seed 1
    .venv/bin/python -m campaigns.acls.changes --broker kwire-zookeeper --seconds 60 --seed 2

Three brokers, each with a topic of its own. An administrator denies a client all topics and takes that back, through
random brokers and after random times; the client sends Produce and Metadata requests to every broker all the time. A
request that is sent after a change was acknowledged (and ``--within-ms`` have passed), and answered before the next
change is sent, must have the answer that the change demands. A line of JSON is printed, then the first wrong answers;
``stale_ms`` is how long after the acknowledgement the last request with a stale answer was sent. The exit status is 1
if there is a wrong answer.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import tempfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from campaigns.command_line import campaign_parser
from harness.processes.clusters import EMBEDDED, ZOOKEEPER, started
from harness.raw_client import RawClient
from kwire.base.config import KafkaConfig
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.message import Message
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch
from kwire.security.acls.bindings import PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType
from kwire.server.broker import Broker

CLASS: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS: Final = {"authorizer.class.name": CLASS, "allow.everyone.if.no.acl.found": "true"}
CLIENT: Final = "127.0.0.2"
"""The address of the client that is denied the topics; administrator and brokers have another one."""
PAUSE_S: Final = 0.4
READY_S: Final = 60.0
SHOWN: Final = 20


class Change(NamedTuple):
    """When a change was sent and acknowledged, and whether the client is denied the topics since. Times in seconds."""

    sent_s: float
    done_s: float
    denied: bool


class Answer(NamedTuple):
    """When a request was sent and answered, what it was, and whether it was refused."""

    sent_s: float
    done_s: float
    what: str
    refused: bool


class History:
    """All changes in order, and all answers."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.answers: list[Answer] = []

    def stale(self, within_s: float = 0.0) -> list[tuple[float, Answer]]:
        """The wrong answers, each with how long after the acknowledgement its request was sent. ``within_s``: how long
        earlier decisions are still right."""
        known_since = [change.done_s + within_s for change in self.changes]
        ends = [change.sent_s for change in self.changes[1:]] + [float("inf")]
        found = []
        for answer in self.answers:
            at = bisect_right(known_since, answer.sent_s) - 1
            if at >= 0 and answer.done_s < ends[at] and answer.refused != self.changes[at].denied:
                found.append((answer.sent_s - self.changes[at].done_s, answer))
        return found

    def counts(self) -> Counter[str]:
        """What happened how often."""
        refused = sum(answer.refused for answer in self.answers)
        return Counter(changes=len(self.changes), refused=refused, allowed=len(self.answers) - refused)


class Cluster:
    """The addresses of three brokers, by node id, and a connection of the administrator to each."""

    def __init__(self, addresses: Sequence[tuple[str, int]], stack: AsyncExitStack) -> None:
        self._addresses = dict(enumerate(addresses, 1))
        self._stack = stack
        self._administrators: list[RawClient] = []

    async def prepare(self) -> None:
        """Create the topics, with an ACL that allows everybody everything, and wait until each broker serves its."""
        for host, port in self._addresses.values():
            client = await RawClient.connect(Doors(), host, port, "administrator")
            self._administrators.append(await self._stack.enter_async_context(client))
        await self._until_there_are_brokers()
        topics = [
            CreatableTopic(
                name=_topic(node),
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[node])],
            )
            for node in self._addresses
        ]
        await self._administrators[0].call(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 7)
        await self.change(_entry("User:*", "*", PermissionType.ALLOW), 0)

    async def _until_there_are_brokers(self) -> None:
        async with asyncio.timeout(READY_S):
            for client in self._administrators:
                while len((await client.call(MetadataRequest(topics=[]), 12)).brokers) < len(self._addresses):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    async def connect(self, node: int) -> RawClient:
        """A connection of the client."""
        sock = socket.socket()
        sock.bind((CLIENT, 0))
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, self._addresses[node])
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return await self._stack.enter_async_context(RawClient(Doors(), sock, "client"))

    async def change(self, entry: AclCreation, through: int, *, delete: bool = False) -> tuple[float, float]:
        """Add or delete an ACL through one of the brokers; when that was sent and acknowledged."""
        request: Message = CreateAclsRequest(creations=[entry])
        if delete:
            request = DeleteAclsRequest(filters=[_filter(entry)])
        sent_s = time.monotonic()
        response = await self._administrators[through].call(request, 3)
        done_s = time.monotonic()
        results = response.filter_results if delete else response.results
        assert not any(each.error_code for each in results), response
        return sent_s, done_s

    @property
    def nodes(self) -> list[int]:
        """The ids of the brokers."""
        return list(self._addresses)


def _topic(node: int) -> str:
    return f"subject-{node}"


def _entry(principal: str, host: str, permission: PermissionType) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="subject-",
        resource_pattern_type=PatternType.PREFIXED,
        principal=principal,
        host=host,
        operation=AclOperation.ALL,
        permission_type=permission,
    )


def _filter(entry: AclCreation) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=entry.resource_type,
        resource_name_filter=entry.resource_name,
        pattern_type_filter=entry.resource_pattern_type,
        principal_filter=entry.principal,
        host_filter=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


async def campaign(addresses: Sequence[tuple[str, int]], seconds: float, seed: int) -> History:
    """Change ACLs for so many seconds; what was answered meanwhile."""
    history = History()
    async with AsyncExitStack() as stack:
        cluster = Cluster(addresses, stack)
        await cluster.prepare()
        asked = [
            (await cluster.connect(node), f"{name} to broker {node}", request, version)
            for node in cluster.nodes
            for name, request, version in (("Metadata", _metadata(node), 12), ("Produce", _produce(node), 11))
        ]
        end_s = time.monotonic() + seconds
        clients = [_ask(*each, history, end_s) for each in asked]
        await asyncio.gather(_alter(cluster, random.Random(seed), history, end_s), *clients)
    return history


async def _alter(cluster: Cluster, chance: random.Random, history: History, end_s: float) -> None:
    denial = _entry("User:ANONYMOUS", CLIENT, PermissionType.DENY)
    denied = False
    while time.monotonic() < end_s:
        await asyncio.sleep(chance.uniform(0.0, PAUSE_S))
        denied = not denied
        times = await cluster.change(denial, chance.randrange(len(cluster.nodes)), delete=not denied)
        history.changes.append(Change(*times, denied))


async def _ask(client: RawClient, what: str, request: Message, version: int, history: History, end_s: float) -> None:
    while (sent_s := time.monotonic()) < end_s:
        response = await client.call(request, version)
        done_s = time.monotonic()
        code = _code(response)
        if code in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            history.answers.append(Answer(sent_s, done_s, what, code != ErrorCode.NONE))
        await asyncio.sleep(0)


def _code(response: Any) -> int:
    code: int = (response.topics[0] if hasattr(response, "topics") else _produced(response)).error_code
    return code


def _produced(response: Any) -> Any:
    return response.responses[0].partition_responses[0]


def _metadata(node: int) -> Message:
    return MetadataRequest(topics=[MetadataRequestTopic(name=_topic(node))], allow_auto_topic_creation=False)


def _produce(node: int) -> Message:
    records = memoryview(bytearray(build_batch([Record(offset=0, timestamp=1_760_000_000_000, key=None, value=b"v")])))
    data = TopicProduceData(name=_topic(node), partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[data])


async def run_here(seconds: float, seed: int) -> History:
    """The campaign with three brokers of kwire in this process, so that mutants apply to them."""
    with tempfile.TemporaryDirectory() as home:
        async with AsyncExitStack() as stack:
            store = MemoryStore()
            addresses = []
            for node in (1, 2, 3):
                broker = Broker(_config(Path(home), node), store=store)
                await stack.enter_async_context(broker)
                addresses.append(("127.0.0.1", broker.net.listeners[0].address[1]))
            return await campaign(addresses, seconds, seed)


def _config(home: Path, node: int) -> KafkaConfig:
    given = {
        "node.id": str(node),
        "log.dir": str(home / str(node)),
        "kwire.metadata.dir": str(home / "unused"),
        "listeners": "PLAINTEXT://127.0.0.1:0",
    }
    return KafkaConfig({**SETTINGS, **given})


def run_seeds(first: int, count: int, seconds: float = 1.0) -> tuple[Counter[str], list[str]]:
    """`run_here` with each seed from ``first`` on, until one finds something; for mutants."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        history = asyncio.run(run_here(seconds, seed))
        counts += history.counts()
        found = [_line(late_s, answer) for late_s, answer in history.stale()]
        if found:
            return counts, found
    return counts, []


def _line(late_s: float, answer: Answer) -> str:
    outcome = "refused" if answer.refused else "allowed"
    return f"{answer.what}: {outcome}, sent {late_s * 1000:.1f} ms after the change was acknowledged"


def _run_processes(kind: str, seconds: float, seed: int) -> History:
    with tempfile.TemporaryDirectory() as home, started(kind, Path(home) / "cluster", SETTINGS) as cluster:
        addresses = [(node.host, node.port) for node in cluster.nodes.values()]
        return asyncio.run(campaign(addresses, seconds, seed))


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = campaign_parser("acls.changes", __doc__)
    parser.add_argument("--broker", choices=(EMBEDDED, ZOOKEEPER), default=EMBEDDED, help="what is tried")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long ACLs change")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within-ms", type=float, default=0.0, help="how long earlier decisions are still right")
    arguments = parser.parse_args()
    history = _run_processes(arguments.broker, arguments.seconds, arguments.seed)
    wrong = history.stale(arguments.within_ms / 1000)
    taken = sorted(change.done_s - change.sent_s for change in history.changes)
    times = {
        "acknowledged_ms_p50": round(taken[len(taken) // 2] * 1000, 1),
        "acknowledged_ms_max": round(taken[-1] * 1000, 1),
        "stale_ms": round(max((late_s for late_s, _ in history.stale()), default=0.0) * 1000, 1),
    }
    facts = {"campaign": "acls.changes", "broker": arguments.broker, "seed": arguments.seed}
    print(json.dumps({**facts, "seconds": arguments.seconds, **history.counts(), **times, "wrong": len(wrong)}))
    for late_s, answer in wrong[:SHOWN]:
        print(_line(late_s, answer))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
