"""`RegistryClient`: requests to a registry, in the order in which a command needs them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit

from kwire.cli.connection.errors import CommandError

if TYPE_CHECKING:
    from http.client import HTTPConnection

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
        self.url = (url or properties.get(URL) or DEFAULT_URL).rstrip("/")
        parts = urlsplit(self.url)
        try:
            self._host, self._port = parts.hostname, parts.port
        except ValueError:
            self._host = None
        if parts.scheme not in ("http", "https") or not self._host:
            raise CommandError(f"{self.url} is no URL of a registry: it is as in {DEFAULT_URL}")
        self._secure = parts.scheme == "https"
        self._prefix = parts.path
        self._timeout_s = timeout_s
        self._trusted = properties.get("ssl.truststore.certificates")
        self._headers = {"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE}
        user = properties.get(_USER)
        if user is None and parts.username:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.url = self.url.replace(f"{parts.netloc.rpartition('@')[0]}@", "", 1)
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
        from http.client import HTTPException

        target = "/".join((self._prefix, *(quote(each, safe=":") for each in path))) + (query and f"?{query}")
        connection = self._connection()
        try:
            connection.request(method, target, body, self._headers)
            response = connection.getresponse()
            status, content = response.status, response.read(_SIZE_MAX)
        except (OSError, HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise CommandError(f"registry {self.url}: {reason}") from None
        finally:
            connection.close()
        return self._read(status, content)

    def _connection(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        assert self._host is not None
        if not self._secure:
            return HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        import ssl

        context = ssl.create_default_context()
        if self._trusted is not None:
            try:
                context.load_verify_locations(cadata=self._trusted)
            except ssl.SSLError as error:
                raise CommandError(f"ssl.truststore.certificates: {error.reason or error}") from None
        return HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=context)

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
