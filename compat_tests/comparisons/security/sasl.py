"""Conversations before and after a login, frame by frame, as plain data."""

from __future__ import annotations

import struct
from typing import Any, Self

from compat_tests.comparisons.admin.requests import facts
from harness.wire_client import WireClient
from kwire.codec.message import Message
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest

CLOSED = "closed"
ALICE = b"\0alice\0alice-secret"


class Conversation:
    """A connection, and all that was said on it. What the brokers differ in (their APIs, nonces) is left out."""

    def __init__(self, bootstrap: str) -> None:
        self._client = WireClient(bootstrap)
        self.said: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def call(self, request: Message, version: int) -> Any:
        """Send a request; its response, or `CLOSED`."""
        try:
            response = self._client.call(request, version)
        except ConnectionError:
            return self._note(CLOSED)
        leave_out = {"api_keys", "supported_features", "finalized_features", "finalized_features_epoch", "brokers"}
        said = facts(response, leave_out=leave_out)
        if "error_message" in type(response).__slots__:
            said["error_message"] = response.error_message
        if "mechanisms" in said:
            said["mechanisms"] = sorted(said["mechanisms"])
        self._note(said)
        return response

    def token(self, token: bytes) -> bytes | None:
        """Send a frame with a token only; the frame that comes back, None if the connection is closed."""
        return self.raw(struct.pack(">i", len(token)) + token)

    def raw(self, data: bytes) -> bytes | None:
        """Send bytes; the frame that comes back, None if the connection is closed."""
        try:
            self._client.socket.sendall(data)
            frame = self._client.receive_frame()
        except ConnectionError:
            self._note(CLOSED)
            return None
        self._note(frame)
        return frame

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        """Choose a mechanism."""
        return self.call(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes = ALICE, version: int = 2) -> Any:
        """Send a token in SaslAuthenticate."""
        return self.call(SaslAuthenticateRequest(auth_bytes=token), version)

    def say(self, token: bytes, handshake_version: int) -> bytes | None:
        """Send a token as the version of the handshake demands; the challenge, None for a refusal. Challenges are
        random, so they are not noted."""
        if handshake_version == 0:
            challenge = self.token(token)
        else:
            response = self.authenticate(token)
            challenge = None if response == CLOSED or response.error_code else bytes(response.auth_bytes)
        if challenge is not None:
            self.said[-1] = "a challenge"
        return challenge

    def _note(self, said: Any) -> Any:
        self.said.append(said)
        return said
