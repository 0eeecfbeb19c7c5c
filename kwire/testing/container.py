"""`KwireContainer`: kwire's image under testcontainers, with the methods of its Kafka container.

    with KwireContainer() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.get_bootstrap_server())

Needs ``testcontainers`` (``pip install 'kwire[testcontainers]'``) and a Docker engine with kwire's image, which
``docker build -t kwire .`` makes (docs/TESTING.md). The image also runs under testcontainers' own Kafka containers.
"""

from __future__ import annotations

import io
import tarfile
import time
from typing import Any, Self

from testcontainers.core.container import DockerContainer

from kwire.server.ready_line import PREFIX

DEFAULT_IMAGE = "kwire:latest"
CLIENT_PORT = 9093
NETWORK_PORT = 9092
POLL_INTERVAL_S = 0.05
_START_SCRIPT = "/tmp/kwire-start.sh"
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
        self.with_exposed_ports(port)
        self.with_env("KAFKA_LISTENERS", f"PLAINTEXT://0.0.0.0:{port},BROKER://0.0.0.0:{NETWORK_PORT}")
        self.with_env("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT")
        self.with_env("KAFKA_INTER_BROKER_LISTENER_NAME", "BROKER")
        self.with_env("KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS", "4")
        self.with_env("KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS", "4")
        for name, value in (properties or {}).items():
            self.with_property(name, value)

    def with_property(self, name: str, value: str) -> Self:
        """Set a broker property by Kafka's name: ``with_property("num.partitions", "3")``."""
        variable = name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
        return self.with_env(f"KAFKA_{variable}", value)

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
        waiting = f"while [ ! -f {_START_SCRIPT} ]; do sleep 0.02; done; exec sh {_START_SCRIPT}"
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
        advertised = f"PLAINTEXT://{self.get_bootstrap_server()},{network}"
        script = f'export KAFKA_ADVERTISED_LISTENERS="{advertised}"\nexec {_RUN}\n'
        self._put_file(_START_SCRIPT, script.encode())

    def _put_file(self, path: str, content: bytes) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(content)
            entry.mode = 0o755
            tar.addfile(entry, io.BytesIO(content))
        self.get_wrapped_container().put_archive("/", archive.getvalue())
