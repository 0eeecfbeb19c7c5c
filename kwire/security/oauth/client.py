"""How a client gets its OAuth token from an issuer: the settings, the request, and what the response must have.

The properties are Kafka's for clients (KIP-768, KIP-1139, KIP-1258): client credentials with a secret or an assertion
in its place, or a JWT assertion alone (RFC 6749, RFC 7523). `retrieve` makes one attempt and blocks. What lives
elsewhere: attempts and when a token is renewed (`kwire.cluster.client_tokens`), HTTP (`kwire.base.http`), tokens in
files and unsecured ones (`kwire.security.client`).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode

from kwire.base.config import ConfigError
from kwire.base.http import SIZE_MAX, TIMEOUT_S, HttpError, Timeouts, request
from kwire.security.errors import AuthenticationError
from kwire.security.oauth.settings import TOKEN_URL, check_url, issuer_context
from kwire.security.oauth.tokens import TokenRefused, base64url_decoded, date, json_object

if TYPE_CHECKING:
    from ssl import SSLContext

    from kwire.base.doors import Doors

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
DEFAULT, SECRETS, BEARER, FILE = (
    f"{_PACKAGE}{name}JwtRetriever" for name in ("Default", "ClientCredentials", "JwtBearer", "File")
)
RETRIEVERS: Final = (DEFAULT, SECRETS, BEARER, FILE)
ALGORITHMS: Final = ("RS256", "ES256")

_CREDENTIALS: Final = "sasl.oauthbearer.client.credentials.client."
_ASSERTION: Final = "sasl.oauthbearer.assertion."
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_OK: Final = (200, 201)
_FINAL: Final = frozenset((400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505))
"""Statuses after which Kafka's clients do not try again."""

_REASON_MAX: Final = 100


class Unavailable(AuthenticationError):
    """There is no token: one line without secrets. ``final``: another attempt would fail, too."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(f"no token from the OAuth issuer: {reason}")
        self.final = final


class RefreshRules(NamedTuple):
    """When a token is renewed: `sasl.login.refresh.*`, with Kafka's defaults."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300


@dataclass(frozen=True, slots=True)
class Assertion:
    """The assertion that a client signs, or finds in a file."""

    file: str | None
    key_file: str | None
    passphrase: str | None = field(repr=False)
    algorithm: str
    claims: Mapping[str, str]
    exp_s: int
    nbf_s: int
    has_id: bool
    template_file: str | None


@dataclass(frozen=True, slots=True)
class TokenClient:
    """Where a client gets its tokens, and by which grant. ``assertion`` None: with ``client_id`` and its secret."""

    url: str
    client_id: str | None
    client_secret: str | None = field(repr=False)
    scope: str | None
    urlencodes_header: bool
    is_bearer_grant: bool
    assertion: Assertion | None
    timeouts: Timeouts
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    tls_options: Mapping[str, str] = field(repr=False)
    refresh: Callable[[], RefreshRules] = field(repr=False)


class ExpiringToken(NamedTuple):
    """A token, and when it was issued and expires (seconds, wall clock)."""

    token: str
    issued_s: float
    expires_s: float

    def __repr__(self) -> str:
        return f"ExpiringToken(expires_s={self.expires_s})"

    def refresh_at_s(self, now_s: float, rules: RefreshRules, chance: float) -> float:
        """When it should be renewed; ``chance`` from 0 to 1 spreads clients. As in Kafka, the minimum period and the
        buffer are ignored for a token that lives too short a time for them."""
        part = rules.window_factor + rules.window_jitter * chance
        proposed = self.issued_s + (self.expires_s - self.issued_s) * part
        if self.expires_s - now_s < rules.min_period_s + rules.buffer_s:
            return proposed
        return max(min(proposed, self.expires_s - rules.buffer_s), now_s + rules.min_period_s)


# -- settings ---------------------------------------------------------------------------------------------------------


def token_client(
    value: Callable[[str], Any],
    options: Mapping[str, str],
    allowed: Collection[str] | None,
    refresh: Callable[[], RefreshRules] = RefreshRules,
) -> TokenClient | None:
    """The settings of a client whose token comes by HTTP; None if `TOKEN_URL` names a file, or is not set. ``value``
    gives a property's typed value, ``options`` are those of the login module, ``allowed`` the URLs that may be used
    (None: all). `ConfigError`."""
    url = (value(TOKEN_URL) or "").strip()
    retriever: str = value(RETRIEVER)
    if retriever not in RETRIEVERS:
        raise ConfigError(RETRIEVER, retriever, f"is not supported by kwire: only {', '.join(RETRIEVERS)}")
    is_file = url.startswith("file:")
    if not url or is_file:
        if retriever in (SECRETS, BEARER) or (retriever == FILE and not url):
            raise ConfigError(TOKEN_URL, None, f"must be {'a file: URL' if retriever == FILE else 'https: or http:'}")
        return None
    if retriever == FILE:
        raise ConfigError(TOKEN_URL, None, f"must be a file: URL for {FILE}")
    check_url(TOKEN_URL, url, [url] if allowed is None else allowed)
    is_bearer = retriever == BEARER
    assertion = _assertion(value) if is_bearer or _has_assertion(value) else None
    client_id = _set(value, options, f"{_CREDENTIALS}id", "clientId")
    secret = _set(value, options, f"{_CREDENTIALS}secret", "clientSecret")
    if assertion is None:
        _required(f"{_CREDENTIALS}id", client_id)
        _required(f"{_CREDENTIALS}secret", secret)
    return TokenClient(
        url,
        client_id,
        secret,
        _set(value, options, "sasl.oauthbearer.scope", "scope"),
        bool(value("sasl.oauthbearer.header.urlencode")),
        is_bearer,
        assertion,
        Timeouts(_seconds(value, "sasl.login.connect.timeout.ms"), _seconds(value, "sasl.login.read.timeout.ms")),
        _positive(value, "sasl.login.retry.backoff.ms"),
        _positive(value, "sasl.login.retry.backoff.max.ms"),
        {name: option for name, option in options.items() if name.startswith("ssl.")},
        refresh,
    )


def _set(value: Callable[[str], Any], options: Mapping[str, str], name: str, option: str) -> str | None:
    """A property, or the option of the login module that was its name before KIP-1139."""
    found: str | None = value(name)
    return (options.get(option) if found is None else found) or None


def _required(name: str, found: object) -> None:
    if not found:
        raise ConfigError(name, None, f"must be set: {TOKEN_URL} is an issuer's")


def _seconds(value: Callable[[str], Any], name: str) -> float:
    found: int | None = value(name)
    if found is None:
        return TIMEOUT_S
    return _positive(value, name) / 1000


def _positive(value: Callable[[str], Any], name: str) -> int:
    found: int = value(name)
    if found < 1:
        raise ConfigError(name, str(found), "must be at least 1")
    return found


def _has_assertion(value: Callable[[str], Any]) -> bool:
    return value(f"{_ASSERTION}file") is not None or value(f"{_ASSERTION}claim.iss") is not None


def _assertion(value: Callable[[str], Any]) -> Assertion:
    file: str | None = value(f"{_ASSERTION}file")
    key_file: str | None = value(f"{_ASSERTION}private.key.file")
    algorithm: str = value(f"{_ASSERTION}algorithm")
    if file is None:
        _required(f"{_ASSERTION}private.key.file", key_file)
        if algorithm not in ALGORITHMS:
            raise ConfigError(f"{_ASSERTION}algorithm", algorithm, f"must be one of {', '.join(ALGORITHMS)}")
    claims = {name: value(f"{_ASSERTION}claim.{name}") for name in ("aud", "iss", "sub")}
    return Assertion(
        file,
        key_file,
        value(f"{_ASSERTION}private.key.passphrase"),
        algorithm,
        {name: claim for name, claim in claims.items() if claim is not None},
        value(f"{_ASSERTION}claim.exp.seconds"),
        value(f"{_ASSERTION}claim.nbf.seconds"),
        value(f"{_ASSERTION}claim.jti.include"),
        value(f"{_ASSERTION}template.file"),
    )


# -- one attempt ------------------------------------------------------------------------------------------------------


def retrieve(client: TokenClient, doors: Doors) -> ExpiringToken:
    """Get a token: one attempt, which blocks. `Unavailable`."""
    headers, body = _request(client, doors)
    context = _context(client, doors)
    try:
        response = request(client.url, context, doors.clock.monotonic, headers, body, client.timeouts)
    except HttpError as error:
        raise Unavailable(str(error)) from None
    if response.status not in _OK:
        code = f"HTTP status {response.status}{_error_of(response.body)}"
        raise Unavailable(code, final=response.status in _FINAL)
    return expiring(_token_of(response.body))


def _context(client: TokenClient, doors: Doors) -> SSLContext | None:
    try:
        return issuer_context(client.url, client.tls_options, doors.files)
    except ConfigError as error:
        raise Unavailable(str(error), final=True) from None


def _request(client: TokenClient, doors: Doors) -> tuple[dict[str, str], bytes]:
    headers = {
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    form = {"grant_type": _JWT_BEARER if client.is_bearer_grant else "client_credentials"}
    if client.is_bearer_grant:
        form["assertion"] = _signed(client.assertion, doors)
    elif client.assertion is not None:
        form |= {"client_assertion_type": _CLIENT_ASSERTION, "client_assertion": _signed(client.assertion, doors)}
        form |= {"client_id": client.client_id} if client.client_id else {}
    else:
        headers["Authorization"] = f"Basic {_credentials(client)}"
    form |= {"scope": client.scope} if client.scope else {}
    return headers, urlencode(form).encode()


def _credentials(client: TokenClient) -> str:
    name, secret = client.client_id or "", client.client_secret or ""
    if client.urlencodes_header:  # RFC 6749, section 2.3.1
        name, secret = quote_plus(name), quote_plus(secret)
    return b64encode(f"{name}:{secret}".encode()).decode()


def _signed(assertion: Assertion | None, doors: Doors) -> str:
    """The assertion, from its file or signed now. The files are read each time: they may have been replaced."""
    assert assertion is not None
    try:
        if assertion.file is not None:
            return doors.files.read_regular(assertion.file, SIZE_MAX).decode("ascii").strip()
        return _sign(assertion, doors)
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or "its file, its key or its template cannot be used"
        raise Unavailable(f"the assertion cannot be made: {reason}", final=True) from None


def _sign(assertion: Assertion, doors: Doors) -> str:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from jwt import PyJWS
    from jwt.exceptions import PyJWTError

    assert assertion.key_file is not None
    header, claims = _template(assertion, doors)
    now_s = doors.clock.time_ms() // 1000
    claims |= {**assertion.claims, "iat": now_s, "exp": now_s + assertion.exp_s, "nbf": now_s - assertion.nbf_s}
    if assertion.has_id:
        claims["jti"] = doors.random.randbytes(16).hex()
    passphrase = assertion.passphrase.encode() if assertion.passphrase is not None else None
    try:
        key: Any = load_pem_private_key(doors.files.read_regular(assertion.key_file, SIZE_MAX), passphrase)
        return PyJWS().encode(json.dumps(claims).encode(), key, assertion.algorithm, header)
    except (PyJWTError, UnsupportedAlgorithm) as error:
        raise ValueError(type(error).__name__) from None


def _template(assertion: Assertion, doors: Doors) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims that a file adds."""
    if assertion.template_file is None:
        return {}, {}
    found = json.loads(doors.files.read_regular(assertion.template_file, SIZE_MAX))
    header, claims = (found.get(name, {}) if isinstance(found, dict) else None for name in ("header", "payload"))
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise ValueError("not a template")
    return header, claims


def _token_of(body: bytes) -> str:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        for name in ("access_token", "id_token"):
            token = found.get(name)
            if isinstance(token, str) and token.strip():
                return token.strip()
    raise Unavailable("the response has no access_token")


def _error_of(body: bytes) -> str:
    """The error's name in a response, for the log."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    name = found.get("error") if isinstance(found, dict) else None
    return f" ({name[:_REASON_MAX]})" if isinstance(name, str) and name.isascii() and name.isprintable() else ""


def expiring(token: str) -> ExpiringToken:
    """The times in a token, whose signature a client does not check. `Unavailable`: the broker would refuse it."""
    try:
        if token.count(".") != 2 or len(token) > SIZE_MAX:
            raise TokenRefused("the token does not have three sections")
        claims = json_object(base64url_decoded(token.split(".")[1]))
        expires_s, issued_s = date(claims, "exp"), date(claims, "iat")
    except TokenRefused as error:
        raise Unavailable(str(error), final=True) from None
    if expires_s is None:
        raise Unavailable("the token has no exp", final=True)
    return ExpiringToken(token, expires_s if issued_s is None else issued_s, expires_s)
