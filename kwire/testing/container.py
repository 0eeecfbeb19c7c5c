"""`KwireContainer`: kwire's image under testcontainers, with the methods of its Kafka container.

    with KwireContainer() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.get_bootstrap_server())

Needs ``testcontainers`` (``pip install 'kwire[testcontainers]'``) and a Docker engine with kwire's image, which
``docker build -t kwire .`` makes (docs/TESTING.md). The image also runs under testcontainers' own Kafka containers.

With TLS or users:

    with KwireContainer().with_security("SASL_SSL", users={"alice": "secret"}) as kafka:
        producer = KafkaProducer(**kafka.kafka_python("alice"))
"""

from __future__ import annotations

import io
import shlex
import shutil
import tarfile
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from testcontainers.core.container import DockerContainer

from kwire.server.ready_line import PREFIX
from kwire.testing.logins import MECHANISMS, PLAIN, PROTOCOLS, Logins, login_module, plain_users

if TYPE_CHECKING:
    from kwire.testing.certificates import Authority

DEFAULT_IMAGE = "kwire:latest"
CLIENT_PORT = 9093
NETWORK_PORT = 9092
POLL_INTERVAL_S = 0.05
_START_SCRIPT = "/tmp/kwire-start.sh"
_COMPLETE = "/tmp/kwire-start.complete"
"""Is put into the container after the start script: a file is visible there before all of it is written."""
_KEY_STORE = "/tmp/kwire-broker.pem"
_DATA = "/var/lib/kafka/data"
_RUN = "/etc/kafka/docker/run"


class KwireContainer(DockerContainer):
    """A kwire broker in a container.

    Clients on this machine use `get_bootstrap_server`; containers in the same network use port 9092 of the alias that
    they were given. ``properties``: Kafka's, by name. A container that ends before clients are served, or is not ready
    in time, fails `start` with its log.
    """

    def __init__(
        self,
        image: str = DEFAULT_IMAGE,
        port: int = CLIENT_PORT,
        *,
        properties: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(image, **kwargs)
        self.port = port
        self._logins = Logins("PLAINTEXT", "", {}, None)
        self._authority: Authority | None = None
        self.with_exposed_ports(port)
        self._set_listeners()
        self.with_env("KAFKA_INTER_BROKER_LISTENER_NAME", "BROKER")
        self.with_env("KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS", "4")
        self.with_env("KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS", "4")
        for name, value in (properties or {}).items():
            self.with_property(name, value)

    def with_property(self, name: str, value: str) -> Self:
        """Set a broker property by Kafka's name: ``with_property("num.partitions", "3")``."""
        variable = name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
        return self.with_env(f"KAFKA_{variable}", value)

    def with_security(
        self, protocol: str = "SASL_SSL", mechanism: str = PLAIN, users: Mapping[str, str] | None = None
    ) -> Self:
        """Secure the port for clients on this machine: ``protocol`` is SSL, SASL_PLAINTEXT or SASL_SSL.

        With SASL, ``users`` (passwords by name) log in with ``mechanism``: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. With
        TLS, the container gets a certificate for its host, from an authority made for it (`ca_path`). Port 9092, for
        containers in the same network, stays without security. ValueError for anything else.
        """
        if protocol not in PROTOCOLS:
            raise ValueError(f"protocol {protocol!r} is none of {', '.join(PROTOCOLS)}")
        has_users = protocol.startswith("SASL")
        if has_users and mechanism not in MECHANISMS:
            raise ValueError(f"mechanism {mechanism!r} is none of {', '.join(MECHANISMS)}")
        if has_users and not users:
            raise ValueError(f"{protocol} needs users: passwords by name")
        ca_path = self._make_authority() if protocol.endswith("SSL") else None
        self._logins = Logins(protocol, mechanism if has_users else "", dict(users or {}), ca_path)
        self._set_listeners()
        prefix = f"listener.name.{protocol.lower()}."
        if ca_path is not None:
            self.with_property(f"{prefix}ssl.keystore.type", "PEM")
            self.with_property(f"{prefix}ssl.keystore.location", _KEY_STORE)
        if has_users:
            self.with_property("sasl.enabled.mechanisms", mechanism)
            names = f" {plain_users(self._logins.users)}" if mechanism == PLAIN else ""
            config = f"{login_module(mechanism)} required{names};"
            self.with_property(f"{prefix}{mechanism.lower()}.sasl.jaas.config", config)
        return self

    @property
    def ca_path(self) -> Path:
        """The certificate that clients must trust (PEM). ValueError without TLS."""
        if self._logins.ca_path is None:
            raise ValueError("the container has no TLS: see with_security")
        return self._logins.ca_path

    def client_properties(self, user: str = "") -> dict[str, str]:
        """Kafka's client properties for a user, as Java's clients read them."""
        return self._logins.properties(user)

    def kafka_python(self, user: str = "") -> dict[str, Any]:
        """The arguments of kafka-python's clients for a user."""
        return self._logins.kafka_python(self.get_bootstrap_server(), user)

    def librdkafka(self, user: str = "") -> dict[str, str]:
        """The configuration of librdkafka's clients (confluent-kafka) for a user."""
        return self._logins.librdkafka(self.get_bootstrap_server(), user)

    def with_cluster_id(self, cluster_id: str) -> Self:
        """Give the cluster an id; the default is a random one."""
        return self.with_env("CLUSTER_ID", cluster_id)

    def with_kraft(self) -> Self:
        """Nothing: there is nothing else than KRaft's way. For programs that call it on the Kafka container."""
        return self

    def get_bootstrap_server(self) -> str:
        """HOST:PORT for clients on this machine."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.port)}"

    def start(self, timeout: float = 30) -> Self:
        """Return when clients are served. TimeoutError or RuntimeError with the container's log otherwise."""
        # Which port the engine has picked is known only when the container runs: it waits for its start script.
        waiting = f"while [ ! -f {_COMPLETE} ]; do sleep 0.02; done; exec sh {_START_SCRIPT}"
        self.with_command(["sh", "-c", waiting])
        super().start()
        self._put_start_script()
        deadline = time.monotonic() + timeout
        while PREFIX.encode() not in (log := b"".join(self.get_logs())):
            container = self.get_wrapped_container()
            container.reload()
            if container.status in ("exited", "dead"):
                raise RuntimeError(f"kwire in {self.image} has ended; its log:\n{log.decode(errors='replace')}")
            if time.monotonic() > deadline:
                text = log.decode(errors="replace")
                raise TimeoutError(f"kwire in {self.image} is not ready after {timeout:g} s; its log:\n{text}")
            time.sleep(POLL_INTERVAL_S)
        return self

    def _put_start_script(self) -> None:
        # The container's own address, not its name: containers in no network of their own resolve no names.
        network = f"BROKER://$(hostname -i | cut -d' ' -f1):{NETWORK_PORT}"
        advertised = f"{self._logins.protocol}://{self.get_bootstrap_server()},{network}"
        lines = [f'export KAFKA_ADVERTISED_LISTENERS="{advertised}"', *self._user_commands(), f"exec {_RUN}"]
        if self._authority is not None:
            hosts = dict.fromkeys((self.get_container_host_ip(), "localhost", "127.0.0.1"))
            self._put_file(_KEY_STORE, self._authority.issue("broker", *hosts).read_bytes())
        self._put_file(_START_SCRIPT, "".join(f"{line}\n" for line in lines).encode())
        self._put_file(_COMPLETE, b"")

    def _set_listeners(self) -> None:
        name = self._logins.protocol
        self.with_env("KAFKA_LISTENERS", f"{name}://0.0.0.0:{self.port},BROKER://0.0.0.0:{NETWORK_PORT}")
        self.with_env("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", f"{name}:{name},BROKER:PLAINTEXT")

    def _make_authority(self) -> Path:
        from kwire.testing.certificates import Authority

        folder = tempfile.mkdtemp(prefix="kwire-certificates-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._authority = Authority(Path(folder))
        return self._authority.path

    def _user_commands(self) -> list[str]:
        """The commands that add the users of SCRAM, before the broker's first start."""
        if self._logins.mechanism in ("", PLAIN):
            return []
        return [
            f"printf %s {shlex.quote(password)} | kwire user add {shlex.quote(name)} --password-file - "
            f'--data-dir "${{KAFKA_LOG_DIRS:-{_DATA}}}" || exit 1'
            for name, password in self._logins.users.items()
        ]

    def _put_file(self, path: str, content: bytes) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(content)
            entry.mode = 0o755
            tar.addfile(entry, io.BytesIO(content))
        self.get_wrapped_container().put_archive("/", archive.getvalue())
