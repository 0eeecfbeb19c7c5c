"""An OAuth authorization server on loopback: token endpoint and key set, by HTTP or HTTPS, on a thread of this process.

It grants tokens by client credentials (RFC 6749, the secret in the header or in the form, or an assertion of RFC 7523
instead of it) and for JWT assertions (RFC 7523). The subject of a token is the client, or that of the assertion. A
request's scope says what is wrong with its token (`WRONG`), so that any client that can ask for a scope can get a bad
token.

    with OAuthServer() as server:
        server.token_url, server.jwks_url, server.issuer    # for clients and brokers
        server.token("alice")                               # for clients that bring their tokens

What lives elsewhere: tokens and keys of any content (`harness.oauth_issuer`).
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from harness.oauth_issuer import claims, jwk, jwks, private_key, signed, unsecured
from harness.processes.certificates import Identity

HOST: Final = "127.0.0.1"
AUDIENCE: Final = "kafka"
LIFETIME_S: Final = 600
CLIENTS: Final = {"alice": "alice-secret", "bob": "bob-secret", "carol": "carol-secret", "odd one": "a:b+c%d é"}
"""Client ids with their secrets; the last one differs in a header with and without URL encoding."""

CLIENT_CREDENTIALS: Final = "client_credentials"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
WRONG: Final = ("expired", "future", "wrong_issuer", "wrong_audience", "wrong_key", "unsigned")
"""Scopes that ask for a token which a broker must refuse; ``seconds_N`` asks for one of another lifetime."""


class Request(NamedTuple):
    """A request that the server got. ``headers`` in lower case."""

    path: str
    headers: dict[str, str]
    form: dict[str, str]


class Refusal(Exception):
    """An error of the token endpoint (RFC 6749, section 5.2)."""

    def __init__(self, error: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(error)
        self.error = error
        self.status = status


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing: clients may hang up and may not trust the certificate."""


class OAuthServer:
    """The server, between `start` and `close` or in a ``with`` block. ``identity``: for HTTPS. ``before``: is called
    with each request before it is answered, and may raise `Refusal`."""

    def __init__(
        self, identity: Identity | None = None, before: Callable[[Request], None] = lambda request: None
    ) -> None:
        self.requests: list[Request] = []
        self.before = before
        self._server = _Server((HOST, 0), self._handler())
        scheme = "http"
        if identity is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity.pem)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            scheme = "https"
        self.issuer = f"{scheme}://{HOST}:{self._server.server_port}"
        self.token_url = f"{self.issuer}/token"
        self.jwks_url = f"{self.issuer}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def start(self) -> None:
        """Serve."""
        self._thread.start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> OAuthServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def token(self, subject: str = "alice", scope: str = "") -> str:
        """A token, wrong as its scope says."""
        now_s = int(time.time())
        words = scope.split()
        lifetime_s = next((int(word[8:]) for word in words if word.startswith("seconds_")), LIFETIME_S)
        found: dict[str, Any] = {"sub": subject, "iss": self.issuer, "aud": AUDIENCE, "scope": scope or None}
        found |= {"iat": now_s - 10, "exp": now_s + lifetime_s}
        if "expired" in words:
            found |= {"iat": now_s - 7200, "exp": now_s - 3600}
        if "future" in words:
            found["nbf"] = now_s + 100
        if "wrong_issuer" in words:
            found["iss"] = "https://other.example"
        if "wrong_audience" in words:
            found["aud"] = "other"
        if "unsigned" in words:
            return unsecured(**found)
        return signed("other RSA" if "wrong_key" in words else "RSA", headers={"kid": "RSA"}, **found)

    def keys(self) -> bytes:
        """The set of the public keys."""
        return jwks(jwk("RSA"))

    def granted(self, request: Request) -> dict[str, Any]:
        """The answer of the token endpoint. `Refusal`."""
        form = request.form
        if form.get("grant_type") == CLIENT_CREDENTIALS:
            subject = self._client(request)
        elif form.get("grant_type") == JWT_BEARER:
            subject = self._asserted(form.get("assertion", ""))
        else:
            raise Refusal("unsupported_grant_type")
        token = self.token(subject, form.get("scope", ""))
        return {"access_token": token, "token_type": "Bearer", "expires_in": LIFETIME_S}

    def _client(self, request: Request) -> str:
        form = request.form
        if form.get("client_assertion_type") == CLIENT_ASSERTION:
            return self._asserted(form.get("client_assertion", ""))
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        name, secret = form.get("client_id", ""), form.get("client_secret", "")
        if scheme == "Basic":
            name, _, secret = b64decode(value).decode().partition(":")
        given = [(name, secret), (unquote_plus(name), unquote_plus(secret))]
        found = next((one for one, its in given if CLIENTS.get(one) == its), None)
        if found is None:
            raise Refusal("invalid_client", HTTPStatus.UNAUTHORIZED)
        return found

    def _asserted(self, assertion: str) -> str:
        """The subject of an assertion, which is signed with `private_key` P-256 or RSA and meant for this server."""
        import jwt

        for kind in ("P-256", "RSA"):
            try:
                found = jwt.decode(
                    assertion, private_key(kind).public_key(), algorithms=["ES256", "RS256"], audience=self.token_url
                )
            except (jwt.InvalidTokenError, TypeError):
                continue
            return str(found["sub"])
        raise Refusal("invalid_grant")

    def _answer(self, request: Request) -> tuple[HTTPStatus, bytes]:
        self.requests.append(request)
        try:
            self.before(request)
            if request.path == "/keys":
                return HTTPStatus.OK, self.keys()
            if request.path == "/token":
                return HTTPStatus.OK, json.dumps(self.granted(request)).encode()
        except Refusal as refusal:
            return refusal.status, json.dumps({"error": refusal.error}).encode()
        return HTTPStatus.NOT_FOUND, b"{}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            timeout = 30

            def do_GET(self) -> None:
                self._reply({})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
                self._reply(dict(parse_qsl(body)))

            def _reply(self, form: dict[str, str]) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, body = answer(Request(self.path, headers, form))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Write nothing."""

        return Handler


def assertion(audience: str, subject: str = "alice", **more: Any) -> str:
    """A client's assertion, for an audience (`OAuthServer.token_url`)."""
    import jwt

    now_s = int(time.time())
    found = claims(sub=subject, aud=audience, iat=now_s, exp=now_s + 300, **more)
    return jwt.encode(found, private_key("P-256"), algorithm="ES256")


_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_ALLOWED: Final = "sasl.oauthbearer.allowed"


def trusted(ca: Path) -> str:
    """The options of a login module, of a broker or a Java client, that trust an authority."""
    return f'ssl.truststore.type="PEM" ssl.truststore.location="{ca}"'


def listener_settings(server: OAuthServer, listener: str, options: str = "") -> dict[str, str]:
    """The properties of a broker of either kind whose listener takes the server's tokens. ``options``: of the login
    module. The keys' URL must also be allowed: `allowed`."""
    if options:  # then Kafka's broker wants a token of its own, which it never sends here
        options += ' unsecuredLoginStringClaim_sub="broker"'
    prefix = f"listener.name.{listener.lower()}."
    mechanism = f"{prefix}oauthbearer."
    return {
        f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{mechanism}sasl.jaas.config": f"{_PACKAGE}OAuthBearerLoginModule required {options};",
        f"{mechanism}sasl.server.callback.handler.class": f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
        f"{mechanism}sasl.oauthbearer.jwks.endpoint.url": server.jwks_url,
        f"{mechanism}sasl.oauthbearer.expected.issuer": server.issuer,
        f"{mechanism}sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def allowed_by_kwire(*urls: str) -> dict[str, str]:
    """The property that allows a broker of kwire these URLs."""
    return {f"kwire.{_ALLOWED}.urls": ",".join(urls)}


def allowed_by_java(*urls: str, files: tuple[Path, ...] = ()) -> dict[str, str]:
    """The properties of a JVM, of a broker or a client, that allow these URLs and files."""
    paths = ",".join(map(str, files))
    return {f"org.apache.kafka.{_ALLOWED}.urls": ",".join(urls), f"org.apache.kafka.{_ALLOWED}.files": paths}
