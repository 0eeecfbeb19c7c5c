"""Every API with every set of its ACLs, through a broker that is not the controller, on three brokers of each kind.

What only the controller decides reaches it in Envelope, with alice's principal. Envelopes that are forged get the same
errors on both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.comparisons.access.acls import CLUSTER_ACTION, Acls
from compat_tests.comparisons.access.answers import PLACES, VARIABLE, answers_with_every_set, log_in_as_alice
from compat_tests.comparisons.access.requests import CASES, Case, cluster
from compat_tests.comparisons.access.three import BROKER_LOGIN, CONTROLLER, GuardedThree
from compat_tests.comparisons.admin.requests import Wire
from compat_tests.servers import running
from harness.observations import Observations
from harness.wire_client import WireClient
from kwire.codec.message import Message
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.envelope_request import EnvelopeRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.protocol import ApiKey
from kwire.handlers.context import RequestContext
from kwire.handlers.envelopes import envelope_of, taken_out
from kwire.handlers.registry import load
from kwire.security.principals import Principal


@pytest.fixture(scope="module")
def three(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedThree]:
    """The started brokers."""
    brokers = GuardedThree(broker_kind, tmp_path_factory.mktemp(f"guarded-three-{broker_kind}"))
    with running(brokers, brokers.stop):
        yield brokers


@pytest.fixture(scope="module")
def ids(three: GuardedThree) -> dict[str, bytes]:
    return three.prepare()


@pytest.fixture
def acls(three: GuardedThree) -> Iterator[Acls]:
    """The administrator's requests for ACLs, of which there are none yet."""
    wires = [Wire(three.bootstrap), Wire(three.address("PLAINTEXT", CONTROLLER))]
    both = Acls(*wires)
    both.clear()
    yield both
    for wire in wires:
        wire.close()


@pytest.fixture
def alice(three: GuardedThree) -> Iterator[WireClient]:
    """A connection of alice to broker 3."""
    with log_in_as_alice(three.address("SASL_PLAINTEXT")) as client:
        yield client


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_answers_through_another_broker(
    three: GuardedThree,
    ids: dict[str, bytes],
    acls: Acls,
    alice: WireClient,
    observe: Observations,
    case: Case,
    pytestconfig: pytest.Config,
) -> None:
    """Every set for what is forwarded; none and all, without --every-set, for what broker 3 handles by itself."""
    wire = Wire(three.bootstrap)
    only_all = not (load(case.api).is_forwardable or pytestconfig.getoption("--every-set"))
    hidden = VARIABLE | PLACES
    for granted, answer in answers_with_every_set(case, ids, wire, acls, alice, hidden, only_all=only_all):
        observe(granted, answer)
    wire.close()


# Forged Envelopes


def new_topic(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000, validate_only=True)


def forged(request: Message, version: int, principal: str, **fields: Any) -> EnvelopeRequest:
    context = RequestContext(None, client_id="forged", principal=Principal("User", principal))  # type: ignore[arg-type]
    envelope = envelope_of(request, version, context)
    for name, value in fields.items():
        setattr(envelope, name, value)
    return envelope


def create(principal: str = "broker", **fields: Any) -> EnvelopeRequest:
    return forged(new_topic("forged"), 7, principal, **fields)


TOPIC = create().request_data
ENVELOPES = {
    "a super user": create(),
    "alice": create("alice"),
    "no principal": create(request_principal=None),
    "an empty principal": create(request_principal=b""),
    "half a principal": create(request_principal=(create().request_principal or b"")[:6]),
    "a principal of another version": create(request_principal=b"\0\1" + (create().request_principal or b"")[2:]),
    "no address": create(client_host_address=b""),
    "five bytes of an address": create(client_host_address=b"12345"),
    "an address of IPv6": create(client_host_address=bytes(15) + b"\1"),
    "no request": create(request_data=b""),
    "half a header": create(request_data=TOPIC[:7]),
    "half a request": create(request_data=TOPIC[:-6]),
    "an unknown API": create(request_data=b"\x7f\x00" + TOPIC[2:]),
    "an unknown version": create(request_data=TOPIC[:2] + b"\0\x63" + TOPIC[4:]),
    "a version that is gone": create(request_data=TOPIC[:2] + b"\0\0" + TOPIC[4:]),
    "an Envelope": forged(create(), 0, "broker"),
    "an API that each broker handles": forged(ListGroupsRequest(), 3, "broker"),
    "an API that no controller has": forged(MetadataRequest(topics=[]), 12, "broker"),
    "ApiVersions": forged(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3, "broker"),
    "no principal, no address, no request": create(request_principal=b"", client_host_address=b"", request_data=b""),
    "no address, no request": create(client_host_address=b"", request_data=b""),
}


def outcome(client: WireClient, envelope: EnvelopeRequest) -> Any:
    try:
        answer = client.call(envelope, 0)
    except OSError:
        return "closed"
    if answer.response_data is None:
        return answer.error_code
    return [answer.error_code, taken_out(answer, ApiKey.CREATE_TOPICS, 7).topics[0].error_code]


def log_in_as_broker(address: str) -> WireClient:
    client = WireClient(address, client_id="broker-2")
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert client.call(SaslAuthenticateRequest(auth_bytes=BROKER_LOGIN), 2).error_code == 0
    return client


@pytest.mark.parametrize("title", ENVELOPES)
def test_forged_envelopes(three: GuardedThree, acls: Acls, observe: Observations, title: str) -> None:
    with log_in_as_broker(three.envelopes) as broker:
        observe("of a broker", outcome(broker, ENVELOPES[title]))
    with log_in_as_alice(three.envelopes) as alice:
        observe("of alice", outcome(alice, ENVELOPES[title]))
        acls.create(cluster(CLUSTER_ACTION))
        observe("of alice with CLUSTER_ACTION", outcome(alice, ENVELOPES[title]))


def test_an_envelope_on_another_listener(three: GuardedThree, observe: Observations) -> None:
    with (log_in_as_broker if three.kind == "kafka" else WireClient)(three.elsewhere) as client:
        observe("closes the connection", outcome(client, create()))


def test_the_listeners_of_clients_do_not_advertise_envelope(three: GuardedThree, observe: Observations) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    with log_in_as_alice(three.address("SASL_PLAINTEXT", CONTROLLER)) as client:
        found = client.call(request, 3).api_keys
    observe("advertised", any(each.api_key == ApiKey.ENVELOPE for each in found))
