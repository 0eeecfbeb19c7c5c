"""A real ZooKeeper server for tests: its jars fetched once through Maven, one small JVM, ready within a second.

Here: the download, starting, stopping, killing and restarting. Not here: fixtures (`cluster/conftest.py`), connections
that can be closed (`harness.processes.proxy`).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from harness.kafka_jars import maven_jars
from harness.processes.brokers import wait_until
from harness.processes.certificates import pkcs8
from harness.processes.ports import free_port

ZOOKEEPER_VERSION = "3.9.4"
_WANTED = (
    ("org.apache.zookeeper", "zookeeper", ZOOKEEPER_VERSION),
    # Two jars that the server needs and its pom leaves out.
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
)


@cache
def zookeeper_jars() -> Path:
    """The folder with ZooKeeper's jars, fetched on first use. Raises `JarsUnavailable`."""
    return maven_jars(f"zookeeper-{ZOOKEEPER_VERSION}", f"ZooKeeper {ZOOKEEPER_VERSION}", _WANTED)


class ZooKeeper:
    """One server on a port of its own. ``settings``: lines of its configuration file; ``options``: Java's.

    ``prefix``: a command that runs another one where ``host`` is an address (`ip netns exec`).
    """

    def __init__(
        self,
        home: Path,
        options: Iterable[str] = (),
        *,
        host: str = "127.0.0.1",
        prefix: Iterable[str] = (),
        **settings: object,
    ) -> None:
        self.options = list(options)
        self.host = host
        self._prefix = list(prefix)
        self.home = home
        self.port = free_port()
        self.settings = {"tickTime": 200, "minSessionTimeout": 400, "maxSessionTimeout": 40000, **settings}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Return when it serves."""
        self.home.mkdir(parents=True, exist_ok=True)
        lines = {"dataDir": self.home / "data", "clientPort": self.port, "clientPortAddress": self.host}
        config = self.home / "zoo.cfg"
        config.write_text("".join(f"{name}={value}\n" for name, value in {**lines, **self.settings}.items()))
        options = ["-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable", "-Xshare:auto"]
        options += ["-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=*"]
        command = [*self._prefix, "java", *options, *self.options, "-cp", f"{zookeeper_jars()}/*"]
        command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        if sys.platform == "linux" and shutil.which("setpriv"):
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        with open(self.home / "log.txt", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_until(self._serves, 60, "ZooKeeper serves")

    def _serves(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.home / "log.txt").read_text()[-2000:]
        return "Mode:" in self.ask("srvr")

    def ask(self, word: str) -> str:
        """The reply to one of ZooKeeper's four-letter words; "" while the server does not reply."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as connection:
                connection.sendall(word.encode())
                answer = b""
                while part := connection.recv(65536):
                    answer += part
                return answer.decode()
        except OSError:
            return ""

    def stop(self) -> None:
        """Kill it; what it has acknowledged stays. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


DIGEST_USER: Final = "kwire"
_DIGEST_PASSWORD: Final = "zookeeper-secret"
_DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule required"
_NETTY: Final = "org.apache.zookeeper.server.NettyServerCnxnFactory"


class SecuredZooKeeper(ZooKeeper):
    """A server with a second port, `secure_address`, for TLS with a client's certificate. Clients log in with
    DIGEST-MD5; what they make belongs to them (``zookeeper.set.acl``)."""

    def __init__(self, home: Path, *, host: str = "127.0.0.1", prefix: Iterable[str] = ()) -> None:
        import trustme

        home.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        self._ca, self._client = home / "ca.pem", home / "client.pem"
        self._ca.write_bytes(authority.cert_pem.bytes())
        server = home / "server.pem"
        for path, name in ((server, host), (self._client, "client.test")):
            issued = authority.issue_cert(name, common_name=name)
            path.write_bytes(pkcs8(issued.private_key_pem.bytes()) + issued.cert_chain_pems[0].bytes())
        jaas = home / "jaas.conf"
        jaas.write_text(f'Server {{ {_DIGEST_MODULE} user_{DIGEST_USER}="{_DIGEST_PASSWORD}"; }};\n')
        self._secure_port = free_port()
        settings: dict[str, object] = {
            "secureClientPort": self._secure_port,
            "secureClientPortAddress": host,
            "serverCnxnFactory": _NETTY,
            "ssl.keyStore.location": server,
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": self._ca,
            "ssl.trustStore.type": "PEM",
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        }
        super().__init__(home, [f"-Djava.security.auth.login.config={jaas}"], host=host, prefix=prefix, **settings)

    @property
    def secure_address(self) -> str:
        """HOST:PORT for TLS."""
        return f"{self.host}:{self._secure_port}"

    def properties(self, path: str) -> dict[str, str]:
        """The properties of a broker whose store is this server, below a path."""
        return {
            "zookeeper.connect": f"{self.secure_address}{path}",
            "zookeeper.set.acl": "true",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": str(self._client),
            "zookeeper.ssl.truststore.location": str(self._ca),
            "zookeeper.ssl.truststore.type": "PEM",
            "kwire.zookeeper.sasl.jaas.config": (
                f'{_DIGEST_MODULE} username="{DIGEST_USER}" password="{_DIGEST_PASSWORD}";'
            ),
        }

    @property
    def login(self) -> dict[str, str]:
        """kazoo's options for a login of the harness."""
        return {"mechanism": "DIGEST-MD5", "username": DIGEST_USER, "password": _DIGEST_PASSWORD}
