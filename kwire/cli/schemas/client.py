"""`RegistryClient`: requests to a registry, in the order in which a command needs them."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from kwire.base.http import HttpError, Timeouts, request
from kwire.cli.connection.errors import CommandError

if TYPE_CHECKING:
    from ssl import SSLContext

DEFAULT_URL: Final = "http://localhost:8081"
URL: Final = "schema.registry.url"
_USER: Final = "basic.auth.user.info"
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_SIZE_MAX: Final = 64 * 1024 * 1024
_NOT_FOUND: Final = (40401, 40402, 40403)


class RegistryClient:
    """Talks to one registry. ``properties``: client properties, of which `schema.registry.url`, `basic.auth.user.info`
    and `ssl.truststore.certificates` count. `CommandError` for a URL that is none."""

    def __init__(self, url: str | None, properties: Mapping[str, str], timeout_s: float) -> None:
        parts = _parsed((url or properties.get(URL) or DEFAULT_URL).rstrip("/"))
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._timeouts = Timeouts(timeout_s, timeout_s)
        self._trusted = properties.get("ssl.truststore.certificates")
        self._headers = {"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE}
        user = properties.get(_USER)
        if user is None and parts.username:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        if user is not None:
            self._headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"

    def get(self, *path: str, query: str = "") -> Any:
        """The JSON at a path. `CommandError`."""
        return self._ask("GET", path, query)

    def post(self, *path: str, body: Mapping[str, Any], query: str = "") -> Any:
        """The JSON that answers a POST. `CommandError`."""
        return self._ask("POST", path, query, json.dumps(body).encode())

    def delete(self, *path: str, query: str = "") -> Any:
        """The JSON that answers a DELETE. `CommandError`."""
        return self._ask("DELETE", path, query)

    def _ask(self, method: str, path: tuple[str, ...], query: str, body: bytes | None = None) -> Any:
        target = "".join(f"/{quote(each, safe=':')}" for each in path) + (query and f"?{query}")
        try:
            response = request(
                self.url + target,
                self._context(),
                time.monotonic,
                self._headers,
                body,
                self._timeouts,
                method=method,
                size_max=_SIZE_MAX,
            )
        except HttpError as error:
            raise CommandError(f"registry {self.url}: {error}") from None
        return self._read(response.status, response.body)

    def _context(self) -> SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        import ssl

        context = ssl.create_default_context()
        if self._trusted is not None:
            try:
                context.load_verify_locations(cadata=self._trusted)
            except ssl.SSLError as error:
                raise CommandError(f"ssl.truststore.certificates: {error.reason or error}") from None
        return context

    def _read(self, status: int, content: bytes) -> Any:
        try:
            found = json.loads(content or b"null")
        except ValueError:
            found = None
        if status == 200:
            return found
        if not isinstance(found, dict) or not isinstance(found.get("message"), str):
            raise CommandError(f"registry {self.url}: HTTP status {status}")
        message = found["message"] if found.get("error_code") in _NOT_FOUND else f"registry: {found['message']}"
        raise CommandError(message, int(found.get("error_code", 0)))


def _parsed(url: str) -> SplitResult:
    """The parts of a registry's URL. `CommandError`."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.query
    except ValueError:
        is_one = False
    if not is_one:
        raise CommandError(f"{url} is no URL of a registry: it is as in {DEFAULT_URL}")
    return parts
