"""Mutants of TLS: what a connection accepts, keeps and sends. Hostile streams must notice them (`campaigns.tls`)."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from campaigns.mutants.mutant import Mutant
from campaigns.tls import campaign
from kwire.net.connection import Connection
from kwire.net.handshake_records import HandshakeRecords
from kwire.net.tls import TlsSocket
from kwire.net.tls_connection import TlsConnection


def _any_record() -> Any:
    return patch.object(HandshakeRecords, "check", lambda self: None)


def _plaintext() -> Any:
    def send(self: TlsSocket, data: Any) -> int:
        return int(self._socket_send(data))

    return patch.object(TlsSocket, "send", send)


def _errors_pass() -> Any:
    def failure(self: TlsSocket, error: Exception) -> Exception:
        return ValueError(str(error))

    return patch.object(TlsSocket, "_failure", failure)


def _no_end() -> Any:
    original = TlsConnection._handshake_readable

    def readable(self: TlsConnection) -> None:
        if self._socket._socket.incoming:
            original(self)

    return patch.object(TlsConnection, "_handshake_readable", readable)


def _no_deadline() -> Any:
    return patch.object(Connection, "_limit_setup", lambda self: None)


def _nothing_pending() -> Any:
    original = TlsConnection._establish

    def establish(self: TlsConnection) -> None:
        with patch.object(TlsConnection, "_read_as_newcomer", lambda self: None):
            original(self)

    return patch.object(TlsConnection, "_establish", establish)


def _no_rest() -> Any:
    original = HandshakeRecords.take_rest

    def take_rest(self: HandshakeRecords) -> bytes:
        original(self)
        return b""

    return patch.object(HandshakeRecords, "take_rest", take_rest)


def _unending_alerts() -> Any:
    return patch.object(TlsConnection, "_fail", lambda self, reason: None)


MUTANTS = {
    "any-record": Mutant("the limits of records in a handshake", _any_record, campaign.run_seeds, 3),
    "plaintext": Mutant("responses are encrypted", _plaintext, campaign.run_seeds, 3),
    "errors-pass": Mutant("OpenSSL's errors end a connection without a traceback", _errors_pass, campaign.run_seeds, 3),
    "no-end": Mutant("a client's end is noticed during the handshake", _no_end, campaign.run_seeds, 3),
    "no-deadline": Mutant("the time for a handshake and a login is limited", _no_deadline, campaign.run_seeds, 3),
    "nothing-pending": Mutant("data that OpenSSL holds is read", _nothing_pending, campaign.run_seeds, 10),
    "no-rest": Mutant("data that follows the handshake at once is read", _no_rest, campaign.run_seeds, 10),
    "unending-alerts": Mutant("a failed handshake ends the connection", _unending_alerts, campaign.run_seeds, 3),
}
