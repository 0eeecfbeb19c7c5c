"""From a frame to its answer: what handlers are given, what becomes of what they do."""

from __future__ import annotations

import asyncio
import io
import json
import struct
from typing import Any

import pytest

from kwire.base import logging
from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.fetch_request import FetchRequest, ReplicaState
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.heartbeat_response import HeartbeatResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, CloseConnection
from kwire.handlers.context import Authorizer, RequestContext
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.server.broker import Broker
from kwire.server.dispatch import REQUEST_LOGGER
from tests.server.conftest import Brokers, closed, serve

CONNECTIONS = "kafka.server:type=socket-server-metrics,listener=PLAINTEXT,networkProcessor=0,name=connection-count"
VERSION = 4
LONG_ID = "x" * 600


def heartbeat(handle: Any, **facts: Any) -> Api:
    return Api(ApiKey.HEARTBEAT, served=(0, 4), handle=handle, **facts)


async def test_the_context_says_who_asks(brokers: Brokers) -> None:
    seen: list[RequestContext] = []

    def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        seen.append(context)
        return HeartbeatResponse()

    broker = await brokers.start()
    serve(broker, heartbeat(handle))
    client = await brokers.connect(broker, client_id="someone")
    software = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    await client.call(software, 3)
    await client.call(HeartbeatRequest(group_id="g"), VERSION)
    (context,) = seen
    assert (context.api_key, context.api_version, context.correlation_id) == (ApiKey.HEARTBEAT, VERSION, 2)
    assert (context.client_id, context.client_host, str(context.principal)) == (
        "someone",
        "/127.0.0.1",
        "User:ANONYMOUS",
    )
    assert (context.software_name, context.software_version) == ("test", "1.0")
    assert context.listener == "PLAINTEXT"
    assert context.endpoint == ("127.0.0.1", broker.net.listeners[0].address[1])
    assert context.services is broker.services


async def test_a_client_is_told_the_address_that_it_connected_to_unless_another_is_advertised(brokers: Brokers) -> None:
    endpoints: list[tuple[str, int]] = []

    def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        endpoints.append(context.endpoint)
        return HeartbeatResponse()

    broker = await brokers.start(listeners="PLAINTEXT://:0")
    serve(broker, heartbeat(handle))
    port = broker.net.listeners[0].address[1]
    for host in ("127.0.0.1", "::1"):
        await (await brokers.connect(broker, host)).call(HeartbeatRequest(), VERSION)
    assert endpoints == [("127.0.0.1", port), ("::1", port)]
    assert broker.bootstrap_servers == f"localhost:{port}"


async def test_advertised_listeners_are_told(brokers: Brokers) -> None:
    endpoints: list[tuple[str, int]] = []

    def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        endpoints.append(context.endpoint)
        return HeartbeatResponse()

    broker = await brokers.start(
        listeners="IN://127.0.0.1:0,OUT://127.0.0.1:0",
        advertised_listeners="OUT://kafka.example.com:19092",
        listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
        inter_broker_listener_name="OUT",
    )
    serve(broker, heartbeat(handle))
    for listener in broker.net.listeners:
        client = await brokers.connect(broker)
        client.close()
        client = await type(client).connect(broker.doors, *listener.address)
        await client.call(HeartbeatRequest(), VERSION)
        client.close()
    assert endpoints == [("127.0.0.1", broker.net.listeners[0].address[1]), ("kafka.example.com", 19092)]


async def test_a_null_client_id_and_header_tags_are_understood(brokers: Brokers) -> None:
    seen: list[str | None] = []

    def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        seen.append(context.client_id)
        return HeartbeatResponse()

    broker = await brokers.start()
    serve(broker, heartbeat(handle))
    client = await brokers.connect(broker, client_id=None)
    await client.call(HeartbeatRequest(), VERSION)
    tagged = struct.pack(">hhih", 12, VERSION, 2, 1) + b"x" + b"\x01\x00\x02ab" + b"\x01\0\0\0\0\x01\0\0"
    await client.post_frame(tagged, ApiKey.HEARTBEAT, VERSION)
    assert seen == [None, "x"]


async def test_a_header_unlike_the_one_before_is_read_anew(brokers: Brokers) -> None:
    seen: list[tuple[str | None, int]] = []

    def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        seen.append((context.client_id, context.api_version))
        return HeartbeatResponse()

    broker = await brokers.start()
    serve(broker, heartbeat(handle))
    client = await brokers.connect(broker)
    ids: list[str | None] = ["a", "a", "ab", None, None, "b", LONG_ID, LONG_ID, "b", "", "a"]
    headers = [(client_id, 4, b"\0") for client_id in ids]
    headers += [
        ("a", 3, b""),
        ("a", 4, b"\0"),
        ("a", 4, b"\x01\x00\x02ab"),
        ("a", 4, b"\x01\x00\x02ab"),
        ("a", 4, b"\0"),
    ]
    for number, (client_id, version, tags) in enumerate(headers):
        raw, length = (b"", -1) if client_id is None else (client_id.encode(), len(client_id))
        head = struct.pack(">hhih", ApiKey.HEARTBEAT, version, number, length) + raw + tags
        body = b"\x02g\0\0\0\0\x01\0\0" if version == 4 else b"\0\1g\0\0\0\0\0\0\xff\xff"
        await client.post_frame(head + body, ApiKey.HEARTBEAT, version)
        (connection,) = broker.net.connections
        assert len(connection.context.rest_of_header) < len(LONG_ID)
    assert seen == [(client_id, version) for client_id, version, _ in headers]


async def respond(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    await asyncio.sleep(0)
    if request.member_id == "kafka":
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if request.member_id == "other":
        raise RuntimeError("on purpose")
    return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def respond_at_once(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    coroutine = respond(request, context)
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        answer: HeartbeatResponse = end.value
        return answer


@pytest.mark.parametrize("handle", [respond, respond_at_once])
async def test_failures_of_handlers_are_answered(
    brokers: Brokers, handle: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = await brokers.start()
    serve(broker, heartbeat(handle))
    client = await brokers.connect(broker)
    for member, code in (
        ("", ErrorCode.REBALANCE_IN_PROGRESS),
        ("kafka", ErrorCode.UNKNOWN_MEMBER_ID),
        ("other", ErrorCode.UNKNOWN_SERVER_ERROR),
    ):
        assert (await client.call(HeartbeatRequest(member_id=member), VERSION)).error_code == code
    assert capsys.readouterr().err.count('"request failed"') == 1
    assert errors(broker) == {"REBALANCE_IN_PROGRESS": 1, "UNKNOWN_MEMBER_ID": 1, "UNKNOWN_SERVER_ERROR": 1}


def errors(broker: Broker) -> dict[str, int]:
    """Those of Heartbeat that were counted, by name."""
    prefix = "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Heartbeat,error="
    return {
        name.removeprefix(prefix): value["Count"]
        for name, value in broker.metrics.snapshot().items()
        if name.startswith(prefix)
    }


async def test_a_handler_may_close_the_connection(brokers: Brokers) -> None:
    def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        raise CloseConnection("acks=0")

    broker = await brokers.start()
    serve(broker, heartbeat(handle))
    client = await brokers.connect(broker)
    client.send_only(HeartbeatRequest(), VERSION)
    assert await closed(client)


async def test_without_an_error_response_the_connection_is_closed(brokers: Brokers) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("not even that")

    broker = await brokers.start()
    serve(broker, heartbeat(fail, error_response=fail))
    client = await brokers.connect(broker)
    client.send_only(HeartbeatRequest(), VERSION)
    assert await closed(client)


async def test_an_answer_that_cannot_be_encoded_is_a_failure(brokers: Brokers) -> None:
    broker = await brokers.start()
    serve(broker, heartbeat(lambda request, context: HeartbeatResponse(error_code=10**9)))
    client = await brokers.connect(broker)
    assert (await client.call(HeartbeatRequest(), VERSION)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert errors(broker) == {"UNKNOWN_SERVER_ERROR": 1}


async def test_what_is_not_allowed_is_refused_before_the_handler_sees_it(brokers: Brokers) -> None:
    class Nobody(Authorizer):
        allows_all = False

        def authorize(self, context: RequestContext, operation: Operation, purpose: object = None) -> bool:
            return False

    def operations(request: HeartbeatRequest, context: RequestContext) -> list[Operation]:
        return [Operation(AclOperation.READ, ResourceType.GROUP, request.group_id)]

    broker = await brokers.start(authorizer=Nobody())
    serve(broker, heartbeat(lambda request, context: 1 / 0, operations=operations))
    client = await brokers.connect(broker)
    answer = await client.call(HeartbeatRequest(group_id="g"), VERSION)
    assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_throttled_client_is_not_served_for_as_long(brokers: Brokers) -> None:
    def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        context.throttle_time_ms = 50
        return HeartbeatResponse(throttle_time_ms=50)

    broker = await brokers.start()
    serve(broker, heartbeat(handle))
    client = await brokers.connect(broker)
    started = asyncio.get_running_loop().time()
    await client.call(HeartbeatRequest(), VERSION)
    await client.call(HeartbeatRequest(), VERSION)
    assert asyncio.get_running_loop().time() - started > 0.045
    throttled = broker.metrics.snapshot()["kafka.network:type=RequestMetrics,name=ThrottleTimeMs,request=Heartbeat"]
    assert (throttled["Count"], throttled["Max"]) == (2, 50)
    assert errors(broker) == {"NONE": 2}


async def test_waiting_answers_are_cancelled_only_where_nobody_else_cares(brokers: Brokers) -> None:
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[HeartbeatResponse]] = []

    def handle(request: HeartbeatRequest, context: RequestContext) -> asyncio.Future[HeartbeatResponse]:
        futures.append(loop.create_future())
        return futures[-1]

    broker = await brokers.start()
    for cancelled in (True, False):
        serve(broker, heartbeat(handle, cancel_on_disconnect=cancelled))
        client = await brokers.connect(broker)
        client.send_only(HeartbeatRequest(), VERSION)
        while len(futures) < 2 - cancelled:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        client.close()
        while broker.net.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert futures[-1].cancelled() == cancelled
    futures[-1].set_result(HeartbeatResponse())  # goes nowhere, harms nobody
    await asyncio.sleep(0)
    assert not broker.dispatcher.pending


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", -1, 0, 1, -1),
        struct.pack(">hhih", 1, 99, 1, -1),
        struct.pack(">hhih", 0, 2, 1, -1),
        struct.pack(">hhih", 52, 0, 1, -1) + b"\0" * 20,
        struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff",
        struct.pack(">hhih", 3, 1, 1, 100) + b"short",
        struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe" + b"\0\0\0\0",
    ],
)
async def test_what_is_no_request_closes_the_connection(brokers: Brokers, body: bytes) -> None:
    broker = await brokers.start()
    client = await brokers.connect(broker)
    client.send_bytes(struct.pack(">i", len(body)) + body)
    assert await closed(client)


async def test_the_request_log_is_switched_while_running(brokers: Brokers) -> None:
    broker = await brokers.start()
    client = await brokers.connect(broker)
    stream = io.StringIO()
    logging.configure(stream=stream, as_json=True)
    try:
        await client.call(ApiVersionsRequest(), 0)
        assert "completed request" not in stream.getvalue()
        logging.set_level(REQUEST_LOGGER, "DEBUG")
        await client.call(ApiVersionsRequest(), 0)
        (line,) = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert (line["api"], line["version"], line["client_id"]) == ("ApiVersions", 0, "test")
        assert "request" not in line
        logging.set_level(REQUEST_LOGGER, "TRACE")
        await client.call(ApiVersionsRequest(), 0)
        assert "ApiVersionsRequest(" in json.loads(stream.getvalue().splitlines()[-1])["request"]
    finally:
        logging.unset_level(REQUEST_LOGGER)
        logging.configure()


async def test_fetch_requests_are_counted_by_who_sends_them(brokers: Brokers) -> None:
    broker: Broker = await brokers.start()
    client = await brokers.connect(broker)
    for replica in (-1, -1, 7):
        await client.call(FetchRequest(replica_state=ReplicaState(replica_id=replica), topics=[]), 17)
    snapshot = broker.metrics.snapshot()
    for request, count in (("FetchConsumer", 2), ("FetchFollower", 1), ("Fetch", 3)):
        prefix = "kafka.network:type=RequestMetrics,name="
        assert snapshot[f"{prefix}RequestsPerSec,request={request},version=17"]["Count"] == count
        assert snapshot[f"{prefix}TotalTimeMs,request={request}"]["Count"] == count


async def test_requests_are_counted(brokers: Brokers) -> None:
    broker: Broker = await brokers.start()
    client = await brokers.connect(broker)
    for _ in range(3):
        await client.call(ApiVersionsRequest(), 0)
    snapshot = broker.metrics.snapshot()
    assert snapshot["kafka.network:type=RequestMetrics,name=RequestsPerSec,request=ApiVersions,version=0"]["Count"] == 3
    assert snapshot["kafka.network:type=RequestMetrics,name=TotalTimeMs,request=ApiVersions"]["Count"] == 3
    assert snapshot[CONNECTIONS] == 1
    assert snapshot["kafka.controller:type=KafkaController,name=ActiveControllerCount"] == 1
