"""A client that keeps to no protocol: frames and bytes of any kind, with TLS or without, and a login by SCRAM of which
every part can be forged.

What lives elsewhere: logins as clients do them (`kwire.security.sasl`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

from harness.processes.certificates import Identity
from harness.processes.secured import LISTENERS, SCRAM, USERS, SecuredBroker
from harness.waiting import PATIENCE_S
from kwire.codec.message import Message
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.testing.frames import INT32, decode_response, request_frame

CLOSED: Final = "closed"
CLIENT_NONCE: Final = "fyko+d2lbbFgONRv9qkxdawL"


class Stranger:
    """A connection to a listener. Whoever reads from it when the broker has closed it gets `CLOSED`."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._sent = 0

    @classmethod
    def at(cls, broker: SecuredBroker, listener: str) -> Self:
        """A connection, with TLS where the listener has it."""
        sock = socket.create_connection((broker.host, broker.ports[listener]), PATIENCE_S)
        if not LISTENERS[listener].endswith("SSL"):
            return cls(sock)
        identity = broker.certificates.client if listener in ("MTLS", "MAPPED") else None
        return cls(client_context(broker, identity).wrap_socket(sock, server_hostname=broker.host))

    @classmethod
    def without_tls(cls, broker: SecuredBroker, listener: str) -> Self:
        """A connection that speaks no TLS, whatever the listener does."""
        return cls(socket.create_connection((broker.host, broker.ports[listener]), PATIENCE_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send anything; what the broker no longer takes is lost."""
        try:
            self.socket.sendall(data)
        except OSError:
            return

    def post(self, request: Message, version: int) -> int:
        """Send a request; its correlation id."""
        self._sent += 1
        self.send(request_frame(request, version, self._sent, "stranger"))
        return self._sent

    def call(self, request: Message, version: int) -> Any:
        """Send a request; its response, or `CLOSED`."""
        return self.answer(request, version, self.post(request, version))

    def answer(self, request: Message, version: int, correlation_id: int) -> Any:
        """The response to a request that was posted, or `CLOSED`."""
        frame = self.frame()
        return CLOSED if frame is None else decode_response(frame, request.API_KEY, version, correlation_id)

    def handshake(self, mechanism: str) -> Any:
        """Choose a mechanism."""
        return self.call(SaslHandshakeRequest(mechanism=mechanism), 1)

    def authenticate(self, token: bytes) -> Any:
        """Send a token."""
        return self.call(SaslAuthenticateRequest(auth_bytes=token), 2)

    def frame(self) -> bytes | None:
        """The next frame; None if the broker closes the connection instead."""
        head = self._read(INT32.size)
        return None if head is None else self._read(INT32.unpack(head)[0])

    def rest(self) -> bytes:
        """All that comes until the broker closes the connection."""
        received = bytearray()
        while part := self._receive(65536):
            received += part
        return bytes(received)

    def is_closed(self) -> bool:
        """Whether the broker closes the connection, and sends nothing before."""
        return self.rest() == b""

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            part = self._receive(size - len(data))
            if not part:
                return None
            data += part
        return bytes(data)

    def _receive(self, size: int) -> bytes:
        try:
            return self.socket.recv(size)
        except TimeoutError:
            raise
        except OSError:
            return b""  # reset, or a TLS alert


def client_context(broker: SecuredBroker, identity: Identity | None = None) -> ssl.SSLContext:
    """A client's TLS context, which trusts the broker."""
    context = ssl.create_default_context(cafile=broker.certificates.ca)
    if identity is not None:
        context.load_cert_chain(identity.pem)
    return context


class ServerFirst(NamedTuple):
    """The server's first SCRAM message."""

    text: str
    nonce: str
    salt: bytes
    iterations: int

    @classmethod
    def parse(cls, token: bytes) -> ServerFirst:
        """Its three fields."""
        text = token.decode()
        fields = dict(field.split("=", 1) for field in text.split(","))
        return cls(text, fields["r"], base64.b64decode(fields["s"]), int(fields["i"]))


class ForgedScram(NamedTuple):
    """A SCRAM login with replaceable parts; by default a right one of alice.

    ``nonce``, ``binding`` and ``proof`` make the parts of the final message of what is right.
    """

    mechanism: str = "SCRAM-SHA-256"
    user: str = "alice"
    password: str = USERS["alice"]
    header: str = "n,,"
    extension: str = ""
    nonce: Callable[[str], str] = lambda nonce: nonce
    binding: Callable[[str], str] = lambda binding: binding
    proof: Callable[[bytes], bytes] = lambda proof: proof
    last: Callable[[str], str] = lambda message: message

    @property
    def bare(self) -> str:
        """The first message without its header."""
        return f"{self.extension}n={self.user},r={CLIENT_NONCE}"

    def first(self) -> bytes:
        """The first message."""
        return f"{self.header}{self.bare}".encode()

    def final(self, server: ServerFirst) -> bytes:
        """The final message, its proof computed over what it says."""
        digest = SCRAM[self.mechanism][1]
        right = base64.b64encode(self.header.encode()).decode()
        plain = f"c={self.binding(right)},r={self.nonce(server.nonce)}"
        salted = hashlib.pbkdf2_hmac(digest, self.password.encode(), server.salt, server.iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        stored_key = hashlib.new(digest, client_key).digest()
        signature = hmac.digest(stored_key, f"{self.bare},{server.text},{plain}".encode(), digest)
        proof = bytes(one ^ two for one, two in zip(client_key, signature, strict=True))
        return self.last(f"{plain},p={base64.b64encode(self.proof(proof)).decode()}").encode()

    def log_in(self, stranger: Stranger) -> Any:
        """The response to the final message, or to the first one if it was refused."""
        assert stranger.handshake(self.mechanism).error_code == 0
        answer = stranger.authenticate(self.first())
        if answer == CLOSED or answer.error_code:
            return answer
        return stranger.authenticate(self.final(ServerFirst.parse(answer.auth_bytes)))
