"""The suite's own issuer of tokens: trivup's `OauthbearerOIDCApp`, an HTTP server on loopback, as a process.

trivup comes with librdkafka's tests. The library that it needs to sign tokens, jwcrypto, is installed beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compat_tests.suites.librdkafka.build import folder_of_tests
from harness.downloads import downloaded, untar
from harness.kafka_jars import cache_root, locked
from harness.processes.brokers import wait_until
from harness.processes.ports import free_port

TRIVUP: Final = "trivup-0.14.0"
JWCRYPTO: Final = "jwcrypto==1.5.6"
_PASSWORD: Final = "client-key-password"


@dataclass(frozen=True, slots=True)
class Issuer:
    """A running issuer. ``keys_url``: its public keys; ``client``, ``environment``: what the tests' clients need."""

    keys_url: str
    client: Mapping[str, str]
    environment: Mapping[str, str]


@contextmanager
def issuing(folder: Path) -> Iterator[Issuer]:
    """Run the issuer. ``folder``: where it and its client keep their keys."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    url = f"http://localhost:{port}"
    environment = _client_keys(folder)
    command = [sys.executable, "-m", "trivup.apps.OauthbearerOIDCApp", "--port", str(port)]
    command += ["--client-public-key", str(folder / "client.jwk")]
    with open(folder / "issuer.log", "wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(_trivup())}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_until(lambda: _answers(process, f"{url}/keys"), 30, "the issuer of tokens")
        yield Issuer(f"{url}/keys", _client(url), {**_urls(url), **environment})
    finally:
        process.kill()
        process.wait()


def _client(url: str) -> dict[str, str]:
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "OIDC",
        "sasl.oauthbearer.client.id": "123",
        "sasl.oauthbearer.client.secret": "abc",
        "sasl.oauthbearer.extensions": "ExtensionworkloadIdentity=develC348S,Extensioncluster=lkc123",
        "sasl.oauthbearer.scope": "test",
        "sasl.oauthbearer.token.endpoint.url": f"{url}/retrieve",
    }


def _urls(url: str) -> dict[str, str]:
    return {
        "VALID_OIDC_URL": f"{url}/retrieve",
        "INVALID_OIDC_URL": f"{url}/retrieve/badformat",
        "EXPIRED_TOKEN_OIDC_URL": f"{url}/retrieve/expire",
    }


def _answers(process: subprocess.Popen[bytes], url: str) -> bool:
    if process.poll() is not None:
        raise TimeoutError("the issuer of tokens has ended")
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _client_keys(folder: Path) -> dict[str, str]:
    """The client's key for signed assertions, as files; the variables that name them."""
    import json

    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
    )
    from jwt.algorithms import RSAAlgorithm

    key = rsa.generate_private_key(65537, 2048)
    public = {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "alg": "RS256", "use": "sig", "kid": "abcdefg"}
    (folder / "client.jwk").write_text(json.dumps(public))
    plain, encrypted = folder / "client.pem", folder / "client-encrypted.pem"
    plain.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    lock = BestAvailableEncryption(_PASSWORD.encode())
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    return {
        "OAUTHBEARER_CLIENT_PRIVATE_KEY": str(plain),
        "OAUTHBEARER_CLIENT_PRIVATE_KEY_ENCRYPTED": str(encrypted),
        "OAUTHBEARER_CLIENT_PRIVATE_KEY_PASSWORD": _PASSWORD,
    }


def _trivup() -> Path:
    """The folder with trivup and its library; unpacked and installed on first use."""
    folder = cache_root() / TRIVUP
    with locked("trivup"):
        if not (folder / "jwcrypto").exists():
            untar(folder_of_tests() / "trivup" / f"{TRIVUP}.tar.gz", cache_root())
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), JWCRYPTO]
            downloaded(JWCRYPTO, pip)
    return folder
