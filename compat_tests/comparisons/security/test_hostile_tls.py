"""Strangers at the listeners with TLS: what each gets is stated here, for both brokers.

The alerts of Java and OpenSSL have other codes, so that a test asks only whether an alert came and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import struct
import subprocess

import pytest

from compat_tests.comparisons.security.stranger import CLOSED, Stranger, client_context
from compat_tests.needs import need
from harness.inspection.process_usage import resident_mb
from harness.processes.certificates import Identity
from harness.processes.secured import SecuredBroker
from harness.waiting import PATIENCE_S
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.testing.frames import request_frame

METADATA = MetadataRequest(topics=[])
VERSIONS = ApiVersionsRequest(client_software_name="stranger", client_software_version="1")
ALICE = b"\0alice\0alice-secret"
TOKEN_NOT_ALLOWED = 64
TLS_LISTENERS = ["SSL", "MTLS", "SASL_SSL"]
ALERT = 0x15
HALF_OPEN = 250
HALF_OPEN_KIB = 64

# A TLS record with a handshake message of 16 MB that never comes whole.
_ENDLESS = struct.pack(">BHH", 0x16, 0x0301, 16384) + b"\x01\xff\xff\xff\x03\x03" + bytes(16378)
_HELLO_BEGINS = bytes.fromhex("160301020001") + b"\x00\x01\xfc\x03\x03"

NO_TLS = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a Kafka request": request_frame(VERSIONS, 3, 1, "stranger"),
    "nothing but zeros": bytes(600),
    "a hello without sense": bytes.fromhex("1603010200010001fc0303") + b"\x55" * 600,
    "data before a handshake": struct.pack(">BHH", 0x17, 0x0303, 64) + bytes(64),
    "a record that is too large": struct.pack(">BHH", 0x16, 0x0303, 0xFFFF) + bytes(20_000),
    "a handshake without end": _ENDLESS * 8,
}


def is_nothing_but_an_alert(data: bytes) -> bool:
    return data == b"" or (data[0] == ALERT and len(data) == 7)


@pytest.mark.parametrize("listener", TLS_LISTENERS)
@pytest.mark.parametrize("name", NO_TLS)
def test_what_is_not_tls_gets_an_alert_at_most(secured: SecuredBroker, listener: str, name: str) -> None:
    with Stranger.without_tls(secured, listener) as one:
        one.send(NO_TLS[name])
        assert is_nothing_but_an_alert(one.rest())


def handshake_fails(secured: SecuredBroker, context: ssl.SSLContext) -> bool:
    """Whether a client cannot complete a handshake."""
    with socket.create_connection((secured.host, secured.ports["SSL"]), PATIENCE_S) as sock:
        try:
            context.wrap_socket(sock, server_hostname=secured.host).close()
        except (ssl.SSLError, ConnectionError):
            return True
    return False


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("version", list(ssl.TLSVersion)[1:-1], ids=lambda version: str(version.name))
def test_tls_before_1_2_is_refused(secured: SecuredBroker, version: ssl.TLSVersion) -> None:
    context = client_context(secured)
    context.set_ciphers("ALL:@SECLEVEL=0")
    try:
        context.minimum_version = context.maximum_version = version
    except ValueError:
        pytest.skip(f"this OpenSSL has no {version.name}")
    assert handshake_fails(secured, context) == (version < ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize("ciphers", ["aNULL", "eNULL"])
def test_ciphers_without_certificates_or_encryption_are_refused(secured: SecuredBroker, ciphers: str) -> None:
    context = client_context(secured)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    assert handshake_fails(secured, context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: str(each.name))
@pytest.mark.parametrize("whose", ["nobody's", "an expired", "a stranger's", "the client's"])
def test_where_a_certificate_is_required_only_a_good_one_is_served(
    secured: SecuredBroker, version: ssl.TLSVersion, whose: str
) -> None:
    certificates = secured.certificates
    identities: dict[str, Identity | None] = {
        "nobody's": None,
        "an expired": certificates.expired,
        "a stranger's": certificates.stranger,
        "the client's": certificates.client,
    }
    context = client_context(secured, identities[whose])
    context.minimum_version = context.maximum_version = version
    sock = socket.create_connection((secured.host, secured.ports["MTLS"]), PATIENCE_S)
    try:
        tls = context.wrap_socket(sock, server_hostname=secured.host)
    except (ssl.SSLError, ConnectionError):  # with TLS 1.3 the client's side of the handshake is complete before
        assert whose != "the client's"
        return
    with Stranger(tls) as one:
        answer = one.call(METADATA, 9)
        assert (answer != CLOSED) == (whose == "the client's")


def test_the_principal_is_the_subject_of_the_clients_certificate(secured: SecuredBroker) -> None:
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    with Stranger.at(secured, "MTLS") as known, Stranger.at(secured, "SSL") as unknown:
        answer = known.call(request, 3)
        assert (answer.error_code, answer.principal_type) == (0, "User")
        assert answer.principal_name == secured.certificates.client_name
        assert unknown.call(request, 3).error_code == TOKEN_NOT_ALLOWED


def test_mapping_rules_make_the_principal_of_the_subject(secured: SecuredBroker) -> None:
    with Stranger.at(secured, "MAPPED") as known:
        answer = known.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
        assert (answer.error_code, answer.principal_name) == (0, "CLIENT@TESTS")


@pytest.mark.parametrize(
    "data",
    [request_frame(METADATA, 9, 2, "stranger"), struct.pack(">BHH", 0x17, 0x0303, 64) + bytes(64)],
    ids=["plaintext", "a forged record"],
)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: str(each.name))
def test_bytes_put_into_a_session_end_it(secured: SecuredBroker, version: ssl.TLSVersion, data: bytes) -> None:
    context = client_context(secured)
    context.maximum_version = version
    sock = socket.create_connection((secured.host, secured.ports["SSL"]), PATIENCE_S)
    with Stranger(context.wrap_socket(sock, server_hostname=secured.host)) as one:
        assert one.call(METADATA, 9).brokers
        with socket.socket(fileno=os.dup(one.socket.fileno())) as beneath:
            beneath.sendall(data)
        assert one.is_closed()


def test_a_login_may_come_in_records_of_one_byte(secured: SecuredBroker) -> None:
    with Stranger.at(secured, "SASL_SSL") as one:
        one.handshake("PLAIN")
        request = MetadataRequest(topics=[])
        assert one.authenticate(ALICE).error_code == 0
        frame = request_frame(request, 9, 1, "stranger")
        for index in range(len(frame)):
            one.send(frame[index : index + 1])
        assert one.frame() is not None


def test_a_handshake_may_come_byte_by_byte(secured: SecuredBroker) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(secured).wrap_bio(incoming, outgoing, server_hostname=secured.host)
    with socket.create_connection((secured.host, secured.ports["SSL"]), PATIENCE_S) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    sock.sendall(bytes([byte]))
                incoming.write(sock.recv(65536))
    assert tls.version() == "TLSv1.3"


def test_renegotiation_is_refused(secured: SecuredBroker) -> None:
    need(None if shutil.which("openssl") else "needs openssl on PATH, not found")
    command = ["openssl", "s_client", "-connect", secured.address("SSL"), "-tls1_2"]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert client.stdin is not None
        client.stdin.write(b"R\n")
        client.stdin.flush()
        client.wait(PATIENCE_S)  # it goes on until its input ends, unless the broker ends the session
        assert client.stdout is not None
        assert b"RENEGOTIATING" in client.stdout.read()
    finally:
        client.kill()
        client.communicate()


@pytest.mark.parametrize("begins", [b"", _HELLO_BEGINS], ids=["nothing", "half a hello"])
def test_beside_many_half_open_handshakes_others_are_served(secured: SecuredBroker, begins: bytes) -> None:
    serve(secured)
    before = resident_mb(secured.pid)
    with contextlib.ExitStack() as stack:
        for index in range(HALF_OPEN):
            one = stack.enter_context(Stranger.without_tls(secured, TLS_LISTENERS[index % len(TLS_LISTENERS)]))
            one.send(begins)
            if index % 25 == 24:  # no faster than they are accepted
                serve(secured)
        if secured.kind == "kwire":
            assert (resident_mb(secured.pid) - before) * 1000 < HALF_OPEN * HALF_OPEN_KIB
    serve(secured)


def serve(secured: SecuredBroker) -> None:
    """A client logs in and is served."""
    with Stranger.at(secured, "SASL_SSL") as client:
        client.handshake("PLAIN")
        assert client.authenticate(ALICE).error_code == 0
        assert client.call(METADATA, 9).brokers
