"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the client proves that it knows the password, and the server
that it has the user's credential, without sending either.

    client   n,,n=user,r=CLIENTNONCE                          client-first
    server   r=CLIENTNONCE+SERVERNONCE,s=SALT,i=ITERATIONS    server-first
    client   c=biws,r=NONCE,p=PROOF                           client-final
    server   v=SIGNATURE                                      server-final

As in Kafka: no channel binding, names and values in ASCII, passwords in UTF-8 without SASLprep; the extension
``tokenauth=true`` in client-first says that name and password are a delegation token's id and HMAC (KIP-48); unknown
extensions are ignored.

Unlike Kafka:

- For a user that does not exist, the salt is computed from the name and a secret (the invented salts that RFC 5802
  recommends in section 9), and the last message is refused, as for a wrong password. Kafka refuses the first message.
- ``c=`` must be the GS2 header that was sent. Kafka accepts any value.
- Signatures cover the messages as they were sent. Kafka composes the messages again from the parts that it knows, so
  that logins with other extensions fail.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kwire.security.errors import AuthenticationError, InvalidCredentials
from kwire.security.principals import ANONYMOUS, USER_TYPE, Principal
from kwire.security.sasl.mechanism import OTHER_IDENTITY
from kwire.security.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    credential_of,
    printable,
    random_text,
)

if TYPE_CHECKING:
    from kwire.security.scram_credentials import RandomBytes

MESSAGE_MAX_BYTES: Final = 16 * 1024
"""Longer messages are refused; a name has at most about 1,000 bytes. Half a megabyte would take some 50 ms to parse."""

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"  # no comma
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<identity>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"v=(?P<signature>{_BASE64}){_EXTENSIONS}|e=(?P<error>{_VALUE})")


class TokenLookup(Protocol):
    """The delegation tokens of a cluster. An unknown or expired token has no credential."""

    def credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential | None:
        """The credential that is derived from the token's HMAC."""

    def owner(self, token_id: str) -> Principal | None:
        """The principal of clients that log in with the token."""

    def expires_ms(self, token_id: str) -> int | None:
        """When it expires, by the wall clock."""


class ScramLookup(NamedTuple):
    """The broker's data about the users of a mechanism."""

    user: Callable[[str], ScramCredential | None]
    """The credential of a user."""
    secret: bytes
    """The secret from which the salts of unknown users are computed: the same on all brokers of a cluster, and it never
    changes."""
    tokens: TokenLookup | None = None
    """Delegation tokens; None if they are disabled."""
    iterations: tuple[int, ...] = (ITERATIONS_MIN,)
    """The different numbers of iterations of the users' credentials: unknown users have one of them."""

    def __repr__(self) -> str:
        return "ScramLookup(...)"


class _Login(NamedTuple):
    """The principal that the client claims, and the credential to check it with."""

    credential: ScramCredential
    principal: Principal
    expires_ms: int | None
    by_token: bool


class _Challenge(NamedTuple):
    """The values that the client's second message must match."""

    login: _Login
    binding: bytes
    nonce: str
    signed: str
    """The messages so far, as they are signed."""


class ServerScram:
    """The broker's side."""

    def __init__(self, mechanism: ScramMechanism, lookup: ScramLookup, random_bytes: RandomBytes) -> None:
        self._mechanism = mechanism
        self._lookup = lookup
        self._random_bytes = random_bytes
        self._challenge: _Challenge | None = None
        self.complete = False
        self.principal = ANONYMOUS
        self.expires_ms: int | None = None
        self.by_token = False

    def respond(self, token: bytes) -> bytes:
        """server-first or server-final."""
        challenge, self._challenge = self._challenge, None
        return self._first(token) if challenge is None else self._final(challenge, token)

    def _first(self, token: bytes) -> bytes:
        message = _parsed(_CLIENT_FIRST, token, "client-first")
        name = message["name"].replace("=2C", ",").replace("=3D", "=")
        login = self._login(name, _has_token(message["extensions"]))
        if message["identity"] not in (None, name):
            raise AuthenticationError(OTHER_IDENTITY)
        credential = login.credential
        if credential.iterations < ITERATIONS_MIN:
            raise InvalidCredentials(f"{credential.iterations} iterations are less than {ITERATIONS_MIN}")
        nonce = message["nonce"] + random_text(self._random_bytes)
        first = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._challenge = _Challenge(login, message["header"].encode(), nonce, f"{message['bare']},{first}")
        return first.encode()

    def _login(self, name: str, by_token: bool) -> _Login:
        """The login of a user or of a token. For one that does not exist, a credential is invented to which no password
        belongs. It is computed in any case, so that both cases take the same time."""
        lookup = self._lookup
        invented = self._invented(name, (ITERATIONS_MIN,) if by_token else lookup.iterations)
        if not by_token:
            return _Login(lookup.user(name) or invented, Principal(USER_TYPE, name), None, False)
        tokens = lookup.tokens
        credential = tokens.credential(self._mechanism, name) if tokens is not None else None
        owner = tokens.owner(name) if tokens is not None else None
        if tokens is None or credential is None or owner is None:
            return _Login(invented, ANONYMOUS, None, True)
        return _Login(credential, owner, tokens.expires_ms(name), True)

    def _invented(self, name: str, iterations: tuple[int, ...]) -> ScramCredential:
        """A credential to which no password belongs: always the same for a name, with salt and iterations like those
        of others."""

        def derived(purpose: str) -> bytes:
            return hmac.digest(self._lookup.secret, f"{purpose} {self._mechanism.name} {name}".encode(), "sha512")

        key = self._mechanism.digest(self._random_bytes(32))
        chosen = iterations[derived("iterations")[0] % len(iterations)]
        return ScramCredential(printable(derived("salt")).encode(), key, key, chosen)

    def _final(self, challenge: _Challenge, token: bytes) -> bytes:
        message = _parsed(_CLIENT_FINAL, token, "client-final")
        login, mechanism = challenge.login, self._mechanism
        if b64decode(message["binding"]) != challenge.binding:
            raise InvalidCredentials("the channel binding is not that of the first message")
        if message["nonce"] != challenge.nonce:
            raise InvalidCredentials("the nonce is not that of the first message")
        signed = f"{challenge.signed},{message['bare']}".encode()
        client_key = _xor(b64decode(message["proof"]), mechanism.hmac(login.credential.stored_key, signed))
        if not hmac.compare_digest(mechanism.digest(client_key), login.credential.stored_key):
            raise InvalidCredentials("unknown user or wrong password")
        self.principal, self.expires_ms, self.by_token = login.principal, login.expires_ms, login.by_token
        self.complete = True
        return b"v=" + b64encode(mechanism.hmac(login.credential.server_key, signed))


class ClientScram:
    """The client's side. ``by_token``: name and password are a delegation token's id and HMAC."""

    def __init__(
        self, mechanism: ScramMechanism, name: str, password: str, random_bytes: RandomBytes, by_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = random_text(random_bytes)
        escaped = name.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={self._nonce}{',tokenauth=true' if by_token else ''}"
        self._signature: bytes | None = None  # the signature that the server must send
        self.complete = False

    def first(self) -> bytes:
        """client-first."""
        return b"n,," + self._bare.encode()

    def respond(self, challenge: bytes) -> bytes:
        """client-final; after server-final nothing."""
        if self._signature is None:
            return self._final(_parsed(_SERVER_FIRST, challenge, "server-first"), challenge.decode())
        message = _parsed(_SERVER_FINAL, challenge, "server-final")
        if message["error"] is not None:
            raise AuthenticationError(f"the server has refused the login: {message['error']}")
        if not hmac.compare_digest(b64decode(message["signature"]), self._signature):
            raise AuthenticationError("the server's signature is wrong: it does not know the password")
        self.complete = True
        return b""

    def _final(self, message: re.Match[str], server_first: str) -> bytes:
        mechanism, nonce, iterations = self._mechanism, message["nonce"], int(message["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError("the server's nonce does not begin with the client's")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationError(f"{iterations} iterations: from {ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed")
        salt = b64decode(message["salt"])
        salted = mechanism.salted_password(self._password, salt, iterations)
        credential = credential_of(mechanism, salted, salt, iterations)
        bare = f"c=biws,r={nonce}"
        signed = f"{self._bare},{server_first},{bare}".encode()
        proof = _xor(mechanism.hmac(salted, b"Client Key"), mechanism.hmac(credential.stored_key, signed))
        self._signature = mechanism.hmac(credential.server_key, signed)
        return f"{bare},p={b64encode(proof).decode()}".encode()


def _parsed(pattern: re.Pattern[str], message: bytes, name: str) -> re.Match[str]:
    """The parts of a message. The error does not repeat it."""
    if len(message) > MESSAGE_MAX_BYTES:
        raise InvalidCredentials(f"{name} message of {len(message)} bytes")
    try:
        found = pattern.fullmatch(message.decode("ascii"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise InvalidCredentials(f"malformed {name} message")
    return found


def _has_token(extensions: str) -> bool:
    """Whether ``tokenauth`` is true among the extensions, which begin with a comma each."""
    values = dict(each.split("=", 1) for each in extensions.split(",")[1:])
    return values.get("tokenauth", "").lower() == "true"


def _xor(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        raise InvalidCredentials("the proof has the wrong length")
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
