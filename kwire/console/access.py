"""Who may ask: a token, the Host and Origin of a request, and the headers that bind the browser.

Everything here is a decision about one request; `kwire.console.app` carries it out. The Host is checked first, so that
a name which an attacker lets point to this address (DNS rebinding) gets nothing at all. A page of another origin gets
nothing either: SameSite=Strict keeps the cookie from other sites, and Origin and Sec-Fetch-Site from other ports of
this host, which cookies do not tell apart.
"""

from __future__ import annotations

import hmac
import math
import time
from collections.abc import Callable, Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from kwire.base.addresses import Address, parse_address
from kwire.console.failures import Refusal

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every response."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE: Final = ("", "0.0.0.0", "::")
_READING: Final = ("GET", "HEAD")
_SAME: Final = ("same-origin", "none")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Asked(NamedTuple):
    """What of a request decides. ``headers``: names in lower case, each with its values."""

    method: str
    path: str
    query: str
    headers: Mapping[str, list[str]]

    def header(self, name: str) -> str | None:
        """A header's only value; None if it is missing."""
        values = self.headers.get(name, [])
        if len(values) > 1:
            raise Refusal(400, "bad_request", f"the header {name} is there {len(values)} times")
        return values[0] if values else None


class Access:
    """The decisions of one console. ``token``: None where people log in (`kwire.console.sessions`); ``lifetime_s``:
    seconds until the token expires; infinity: never."""

    def __init__(
        self,
        token: str | None,
        address: Address,
        *,
        secure: bool = False,
        allowed_hosts: Iterable[str] = (),
        lifetime_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._token = None if token is None else token.encode()
        self._clock = clock
        self._ends_s = clock() + lifetime_s
        self._secure = secure
        self._scheme = "https" if secure else "http"
        self._hosts = _hosts(address, allowed_hosts, _DEFAULT_PORTS[self._scheme])
        self.cookie = f"kwire_console_{address.port}"
        """The cookie's name, which has the port: all ports of a host have their cookies in common."""

    def check(self, asked: Asked) -> None:
        """`Refusal` for a request from elsewhere, or to another name than this console's."""
        host = asked.header("host")
        if host is None or host.lower() not in self._hosts:
            raise Refusal(403, "foreign_host", "this console has another name: see --allow-host")
        origin = asked.header("origin")
        if origin is not None and origin.lower() != f"{self._scheme}://{host.lower()}":
            raise Refusal(403, "foreign_origin", "pages of other origins may not ask this console")
        if asked.path.startswith("/api/") and asked.header("sec-fetch-site") not in (None, *_SAME):
            raise Refusal(403, "foreign_origin", "pages of other sites may not ask this console")
        if asked.method not in _READING:
            if origin is None and asked.header("x-kwire-console") != "1":
                raise Refusal(403, "foreign_origin", "a change needs an Origin, or the header X-Kwire-Console: 1")
            if (asked.header("content-type") or "").partition(";")[0].strip().lower() != "application/json":
                raise Refusal(403, "bad_content_type", "a change needs the content type application/json")

    def is_allowed(self, asked: Asked) -> bool:
        """Whether the request has the token: as a cookie, as a bearer's, or as query parameter."""
        given = self.given(asked)
        return given is not None and self.is_valid(given)

    def given(self, asked: Asked) -> str | None:
        """The token that a request has; that of the query comes first, so that a new one replaces an old cookie."""
        in_query = parse_qs(asked.query, max_num_fields=100).get("token")
        if in_query:
            return in_query[0]
        scheme, _, bearer = (asked.header("authorization") or "").partition(" ")
        if scheme.lower() == "bearer":
            return bearer.strip()
        return self.of_cookie(asked)

    def is_valid(self, token: str) -> bool:
        """Whether this is the token, and it has not expired."""
        if self._token is None:
            return False
        same = hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token)
        return same and self._clock() < self._ends_s

    def set_cookie(self, token: str) -> str:
        """The header ``Set-Cookie`` for who has come with the token, or has logged in."""
        left_s = self._ends_s - self._clock()
        age = "" if math.isinf(left_s) else f"; Max-Age={max(math.floor(left_s), 0)}"
        secure = "; Secure" if self._secure else ""
        return f"{self.cookie}={token}; Path=/; HttpOnly; SameSite=Strict{secure}{age}"

    def of_cookie(self, asked: Asked) -> str | None:
        """What a request's cookie of this console has."""
        for text in asked.headers.get("cookie", []):
            try:
                found = SimpleCookie(text).get(self.cookie)
            except CookieError:
                continue
            if found is not None:
                return found.value
        return None


def _hosts(address: Address, allowed: Iterable[str], default_port: int) -> frozenset[str]:
    """The values of the header Host that are this console's."""
    names = list(_LOOPBACK)
    if address.host not in _EVERYWHERE:
        names.append(f"[{address.host}]" if ":" in address.host else address.host)
    hosts = {f"{name}:{address.port}" for name in names}
    if address.port == default_port:
        hosts.update(names)
    for each in allowed:
        hosts.add(each)
        try:
            parse_address(each)
        except ValueError:
            hosts.add(f"{each}:{address.port}")
    return frozenset(each.lower() for each in hosts)
