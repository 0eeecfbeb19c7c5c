"""`Registry`: a process of ``kwire registry``, on a cluster of any kind."""

from __future__ import annotations

import atexit
import json
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from harness.processes.certificates import Certificates

JSON: Final = "application/vnd.schemaregistry.v1+json"
_READY: Final = "kwire registry ready url="
_END_S: Final = 60.0


class Answer(NamedTuple):
    """A status, and the JSON of the body."""

    status: int
    body: Any

    @property
    def code(self) -> tuple[int, int]:
        """The status and Confluent's code."""
        return self.status, self.body["error_code"]


class RegistryFailed(Exception):
    """The process did not come to serve; the last line that it wrote on standard error."""


def call(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 120.0,
    context: ssl.SSLContext | None = None,
) -> Answer:
    """A request to a registry of any kind, and what came back; `OSError` if nothing did."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = Request(url + path, data, {"Content-Type": JSON, **(headers or {})}, method=method)
    try:
        return _answered(request, timeout_s, context)
    except HTTPException as error:  # it was killed in the middle of a response
        raise ConnectionError(str(error)) from None


def _answered(request: Request, timeout_s: float, context: ssl.SSLContext | None) -> Answer:
    try:
        with urlopen(request, timeout=timeout_s, context=context) as response:
            return Answer(response.status, json.loads(response.read() or b"null"))
    except HTTPError as error:
        with error:
            return Answer(error.code, _json(error.read()))


def _json(content: bytes) -> Any:
    """The JSON of a body, or its text if it is none."""
    try:
        return json.loads(content or b"null")
    except ValueError:
        return content.decode(errors="replace")


def secured_options(certificates: Certificates, user: str, users: Path) -> list[str]:
    """Options of a registry with TLS and one user (``NAME:PASSWORD``), whose file is written."""
    users.write_text(user)
    server = certificates.server
    return ["--tls-cert", str(server.chain), "--tls-key", str(server.key), "--users", str(users)]


class Registry:
    """A process of ``kwire registry``, whose group has the topic's name. ``ca``: whom `call` trusts.

    `RegistryFailed` if it ends before it serves.
    """

    def __init__(
        self, bootstrap: str, topic: str, *options: str, listen: str = "127.0.0.1:0", ca: Path | None = None
    ) -> None:
        command = [sys.executable, "-m", "kwire", "registry", "--bootstrap-server", bootstrap, "--listen", listen]
        command += ["--topic", topic, "--group", topic, "--timeout", "60", *options]
        self._context = None if ca is None else ssl.create_default_context(cafile=str(ca))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        atexit.register(self.process.kill)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith(_READY):
            self.process.wait(_END_S)
            said = self.log().splitlines()
            self.close()
            raise RegistryFailed(said[-1] if said else "it has written nothing")
        self.url = line.removeprefix(_READY).strip()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
    ) -> Answer:
        """A request and what came back; `OSError` if nothing did."""
        return call(self.url, method, path, body, headers, timeout_s=timeout_s, context=self._context)

    def log(self) -> str:
        """What it has written on standard error."""
        number = self._log.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        """End it and free its files; SIGTERM if it still runs."""
        self.process.terminate()
        self.process.communicate(timeout=_END_S)
        self._log.close()
        atexit.unregister(self.process.kill)
