"""Frames of a login, and what a login is made of, without sockets and on a clock of the test's own."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from harness.services import services_with
from kwire.base.doors import Clock
from kwire.base.metrics import MetricsRegistry
from kwire.cluster.metadata.image import ClusterImage
from kwire.codec.message import Message
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.protocol import decode, response_class, response_header_version
from kwire.handlers.context import Services
from kwire.handlers.registry import Registry
from kwire.security.sasl.mechanism import ServerExchange
from kwire.security.sasl.plain import ServerPlain
from kwire.security.sasl.scram import ScramLookup, ServerScram
from kwire.security.scram_credentials import ScramMechanism, make_credential
from kwire.server.authentication.settings import LoginSettings, Mechanism
from kwire.testing.frames import request_frame

PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
ALICE, BOB = (f"\0{name}\0{password}".encode() for name, password in PASSWORDS.items())
CREDENTIALS = {"alice": make_credential(ScramMechanism.SHA_256, "alice-secret", b"salt", 4096)}
SOFTWARE = ApiVersionsRequest(client_software_name="test", client_software_version="1.2")
REGISTRY = Registry()
CORRELATION_ID = 7


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.clock = Clock(lambda: self.now_ms, lambda: self.now_ms / 1000, lambda: self.now_ms / 1000)


def begin_plain() -> ServerExchange:
    return ServerPlain(PASSWORDS)


def begin_scram() -> ServerExchange:
    return ServerScram(ScramMechanism.SHA_256, ScramLookup(CREDENTIALS.get, b"secret"), lambda size: b"\x55" * size)


def mechanisms(max_reauth_ms: int = 0) -> dict[str, Mechanism]:
    return {
        "PLAIN": Mechanism(begin_plain, max_reauth_ms),
        "SCRAM-SHA-256": Mechanism(begin_scram, max_reauth_ms),
    }


def login_settings(max_reauth_ms: int = 0, **changes: Any) -> LoginSettings:
    return LoginSettings(mechanisms(max_reauth_ms), "SASL_PLAINTEXT")._replace(**changes)


def services_on(time: Time) -> Services:
    return services_with(
        doors=SimpleNamespace(clock=time.clock),
        metrics=MetricsRegistry(),
        advertised_apis=REGISTRY.advertised(),
        supported_features={},
        image_source=ClusterImage,
    )


def frame_of(request: Message, version: int) -> memoryview:
    """A request as a dispatcher gets it: without its size."""
    return memoryview(request_frame(request, version, CORRELATION_ID, "test"))[4:]


def handshake(mechanism: str = "PLAIN", version: int = 1) -> memoryview:
    return frame_of(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(token: bytes = ALICE, version: int = 2) -> memoryview:
    return frame_of(SaslAuthenticateRequest(auth_bytes=token), version)


def response_in(frame: bytes | None, key: int, version: int) -> Any:
    """The response in a frame with its size."""
    assert frame is not None
    size, correlation_id = struct.unpack_from(">ii", frame)
    assert (size, correlation_id) == (len(frame) - 4, CORRELATION_ID)
    message, end = decode(response_class(key), version, frame, 9 if response_header_version(key, version) else 8)
    assert end == len(frame)
    return message
