"""One login of one connection, without I/O: a frame in, a reply and the next step out.

    ApiVersions?  ->  SaslHandshake v0  ->  tokens, each a frame of its own
                      SaslHandshake v1  ->  SaslAuthenticate, each with a token

As in Kafka's `SaslServerAuthenticator`:

- One ApiVersions request gets the same response as after the login (responses with an error do not count). The next
  request must be SaslHandshake. Anything else closes the connection.
- A handshake for a mechanism that is not enabled gets UNSUPPORTED_SASL_MECHANISM with the list of those that are, and
  the login has failed; in a reauthentication the connection is closed without a response.
- After a handshake of version 1, any request but SaslAuthenticate gets its own response with ILLEGAL_SASL_STATE, and
  the login has failed. A request with more than 1,000 elements closes the connection (unlike in Kafka), as does a
  version that is not served.
- A failed login gets SASL_AUTHENTICATION_FAILED with the mechanism's text, or with a general text if the reason would
  reveal something about users; after a handshake of version 0 there is no response.
- A reauthentication (KIP-368) begins with SaslHandshake. With another mechanism than before, it fails at the next
  request; with another principal, it fails like a wrong password.

A GSSAPI token without a handshake, which old clients send, is refused. What lives elsewhere: the delay after a failure,
closing the connection, the time after the login (`stage`), mechanisms (`kwire.security.sasl`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import Enum, auto
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater, is_later
from kwire.codec.errors import CodecError
from kwire.codec.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kwire.codec.messages.sasl_handshake_response import SaslHandshakeResponse
from kwire.codec.protocol import (
    ApiKey,
    decode,
    decode_request_header,
    encode,
    encode_response_header,
    request_class,
)
from kwire.handlers.cluster import api_versions
from kwire.handlers.context import RequestContext
from kwire.net.connection import InvalidFrame
from kwire.security.errors import AuthenticationError, InvalidCredentials
from kwire.server.requests.routes import api_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.base.doors import Clock
    from kwire.codec.message import Message
    from kwire.handlers.context import Services
    from kwire.handlers.registry import Registry
    from kwire.security.principals import Principal
    from kwire.security.sasl.mechanism import ServerExchange
    from kwire.server.authentication.settings import LoginSettings, Mechanism

    _Succeeded = Callable[[bytes | None, int], "Reply"]
    """(challenge, lifetime in ms) -> the reply"""
    _Failed = Callable[[str, str], "Reply"]
    """(text for the client, reason for the log) -> the reply"""

_read_key = Struct(">hhi").unpack_from
_KEY_BYTES: Final = 8

ELEMENTS_MAX: Final = 1000
"""The most elements of a request before the login is complete. The requests of a login have none; others are decoded
only to build the response that refuses them, which must not take long."""
_pack_size = Struct(">i").pack


class Step(Enum):
    """What follows a reply."""

    MORE = auto()
    """The next frame of the login."""
    COMPLETE = auto()
    """The client's requests; `Login.session` has its principal."""
    FAILED = auto()
    """The end of the connection."""


class Reply(NamedTuple):
    """The reaction to a frame."""

    frame: bytes | None
    """The response with its size; None: there is none."""
    step: Step
    reason: str = ""
    """Why a login has failed, for the log."""


class Session(NamedTuple):
    """The result of a successful login."""

    principal: Principal
    mechanism: str
    by_token: bool
    """Whether the client logged in with a delegation token."""
    ends_s: float | None
    """The time on the monotonic clock from which requests are refused, unless the client has logged in again."""
    can_repeat: bool
    """Whether the client supports reauthentication (SaslAuthenticate version 1)."""


class Software(NamedTuple):
    """The client's software, as named in its ApiVersions request (KIP-511)."""

    name: str
    version: str


class _State(Enum):
    START = auto()
    HANDSHAKE = auto()  # ApiVersions has been answered, or this is a reauthentication
    TOKENS = auto()
    REQUESTS = auto()  # with tokens in them
    OTHER_MECHANISM = auto()  # than that of the login before


class _Request(NamedTuple):
    key: int
    version: int
    correlation_id: int
    body: Any


class LoginRules(NamedTuple):
    """What all logins of a listener share."""

    settings: LoginSettings
    services: Services
    registry: Registry
    clock: Clock


class Login:
    """A login, or a reauthentication if ``previous`` is given. It must not be used after an exception or a reply with
    another step than `Step.MORE`."""

    def __init__(self, rules: LoginRules, previous: Session | None = None) -> None:
        self._rules = rules
        self._previous = previous
        self._state = _State.START if previous is None else _State.HANDSHAKE
        self._name = ""
        self._mechanism: Mechanism | None = None
        self._exchange: ServerExchange | None = None
        self._can_repeat = False
        self.software: Software | None = None
        self.session: Session | None = None

    @property
    def mechanism_name(self) -> str:
        """The mechanism that the client has chosen; empty before that."""
        return self._name

    @property
    def takes_empty_frames(self) -> bool:
        """Whether the next frame may be empty: a token of a client of version 0."""
        return self._state is _State.TOKENS

    def receive(self, frame: memoryview) -> NowOrLater[Reply]:
        """The reaction to the next frame. `InvalidFrame`: the connection is closed at once."""
        if self._state is _State.OTHER_MECHANISM:
            assert self._previous is not None
            text = f"mechanism {self._name} instead of {self._previous.mechanism} in a re-authentication"
            return Reply(None, Step.FAILED, text)
        if self._state is _State.TOKENS:
            return self._token(bytes(frame))
        try:
            if self._state is _State.REQUESTS:
                return self._authenticate(self._decoded(frame))
            return self._begin(frame)
        except CodecError as error:
            raise InvalidFrame(f"malformed request: {error}") from None

    # -- the handshake ----------------------------------------------------------------------------------------------

    def _begin(self, frame: memoryview) -> Reply:
        """ApiVersions or SaslHandshake. The headers of other requests are not decoded."""
        if len(frame) < _KEY_BYTES:
            raise InvalidFrame("the request header ends early")
        key, version, correlation_id = _read_key(frame)
        if key == ApiKey.API_VERSIONS and self._state is _State.START:
            low, high = api_versions.API.served
            if not low <= version <= high:
                return _reply(_Request(key, 0, correlation_id, None), api_versions.unsupported_version())
            return self._api_versions(self._decoded(frame))
        if key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(self._decoded(frame))
        raise InvalidFrame(f"API key {key} before the SASL handshake; is the client configured for SASL?")

    def _api_versions(self, request: _Request) -> Reply:
        context = RequestContext(self._rules.services, api_key=request.key, api_version=request.version)
        response = api_versions.handle(request.body, context)
        if response.error_code == ErrorCode.NONE:
            self.software = Software(context.software_name, context.software_version)
            self._state = _State.HANDSHAKE
        return _reply(request, response)

    def _handshake(self, request: _Request) -> Reply:
        name = request.body.mechanism
        mechanisms = self._rules.settings.mechanisms
        mechanism = mechanisms.get(name)
        if mechanism is None:
            if self._previous is not None:
                raise InvalidFrame(f"mechanism {name[:40]!r} of a re-authentication is not enabled")
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            response = SaslHandshakeResponse(error_code=code, mechanisms=list(mechanisms))
            return _reply(request, response, Step.FAILED, f"mechanism {name[:40]!r} is not enabled")
        self._name, self._mechanism = name, mechanism
        if self._previous is not None and self._previous.mechanism != name:
            self._state = _State.OTHER_MECHANISM
        else:
            self._exchange = mechanism.begin()
            self._state = _State.REQUESTS if request.version >= 1 else _State.TOKENS
        return _reply(request, SaslHandshakeResponse(mechanisms=list(mechanisms)))

    def _decoded(self, frame: memoryview) -> _Request:
        header, position = decode_request_header(frame)
        key, version = header.request_api_key, header.request_api_version
        api = self._rules.registry.get(key)
        if api is None or not api.served[0] <= version <= api.served[1]:
            raise InvalidFrame(f"API key {key} is not served in version {version}")
        body, _ = decode(request_class(key), version, frame, position, ELEMENTS_MAX)
        return _Request(key, version, header.correlation_id, body)

    # -- the tokens -------------------------------------------------------------------------------------------------

    def _token(self, token: bytes) -> NowOrLater[Reply]:
        """A token of a client of version 0."""

        def succeeded(challenge: bytes | None, lifetime_ms: int) -> Reply:
            return Reply(None if challenge is None else _pack_size(len(challenge)) + challenge, self._step())

        def failed(text: str, reason: str) -> Reply:
            return Reply(None, Step.FAILED, reason)

        return self._respond(token, succeeded, failed)

    def _authenticate(self, request: _Request) -> NowOrLater[Reply]:
        """SaslAuthenticate with a token; others are refused."""
        if request.key != ApiKey.SASL_AUTHENTICATE:
            return self._out_of_place(request)
        self._can_repeat = self._can_repeat or request.version >= 1

        def succeeded(challenge: bytes | None, lifetime_ms: int) -> Reply:
            response = SaslAuthenticateResponse(auth_bytes=challenge or b"", session_lifetime_ms=lifetime_ms)
            return _reply(request, response, self._step())

        def failed(text: str, reason: str) -> Reply:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return _reply(request, SaslAuthenticateResponse(error_code=code, error_message=text), Step.FAILED, reason)

        return self._respond(bytes(request.body.auth_bytes), succeeded, failed)

    def _out_of_place(self, request: _Request) -> Reply:
        api = self._rules.registry.get(request.key)
        assert api is not None
        text = f"Unexpected Kafka request of type {api.key.name} during SASL authentication."
        response = api.error_response(request.body, request.version, ErrorCode.ILLEGAL_SASL_STATE, text)
        return _reply(request, response, Step.FAILED, f"{api_name(request.key)} instead of SaslAuthenticate")

    def _respond(self, token: bytes, succeeded: _Succeeded, failed: _Failed) -> NowOrLater[Reply]:
        """The reply to a token, from the mechanism's challenge or error."""
        assert self._exchange is not None
        try:
            challenge = self._exchange.respond(token)
            if is_later(challenge):
                return self._respond_later(challenge, succeeded, failed)
            return succeeded(challenge, self._finish())
        except AuthenticationError as error:
            return failed(self._text(error), error.reason)

    async def _respond_later(self, challenge: Awaitable[bytes | None], succeeded: _Succeeded, failed: _Failed) -> Reply:
        try:
            return succeeded(await challenge, self._finish())
        except AuthenticationError as error:
            return failed(self._text(error), error.reason)

    def _text(self, error: AuthenticationError) -> str:
        """The error message for the client."""
        if not isinstance(error, InvalidCredentials):
            return str(error)
        what = "authentication" if self._previous is None else "re-authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._name}"

    def _finish(self) -> int:
        """Make the session if the exchange is complete. Returns its lifetime in milliseconds, 0 for no limit."""
        exchange, mechanism = self._exchange, self._mechanism
        assert exchange is not None
        assert mechanism is not None
        if not exchange.complete:
            return 0
        principal, previous = exchange.principal, self._previous
        if previous is not None and principal != previous.principal:
            was, now = previous.principal, principal
            raise AuthenticationError(
                f"Cannot change principals during re-authentication from {was.type}.{was.name}: {now.type}.{now.name}"
            )
        lifetime_ms = self._lifetime_ms(exchange.expires_ms, mechanism.max_reauth_ms)
        ends_s = None if lifetime_ms is None else self._rules.clock.monotonic() + lifetime_ms / 1000
        self.session = Session(principal, self._name, exchange.by_token, ends_s, self._can_repeat)
        return lifetime_ms or 0

    def _lifetime_ms(self, expires_ms: int | None, max_reauth_ms: int) -> int | None:
        """The shorter of the credential's remaining lifetime and the configured limit; None for no limit."""
        limits = [max_reauth_ms] if max_reauth_ms > 0 else []
        if expires_ms is not None:
            limits.append(max(expires_ms - self._rules.clock.time_ms(), 0))
        return min(limits, default=None)

    def _step(self) -> Step:
        return Step.MORE if self.session is None else Step.COMPLETE


def _reply(request: _Request, response: Message | None, step: Step = Step.MORE, reason: str = "") -> Reply:
    """A reply with the response to a request."""
    if response is None:
        return Reply(None, step, reason)
    body = encode_response_header(request.key, request.version, request.correlation_id)
    body += encode(response, request.version)
    return Reply(_pack_size(len(body)) + body, step, reason)
