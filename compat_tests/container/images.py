"""Images for tests, built on the base image of `docker_engine`, so that no registry is needed: kwire's own, from the
unchanged Dockerfile, and stand-ins for the official ones of ZooKeeper and Prometheus."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from harness.paths import ROOT
from harness.processes import docker_engine, prometheus
from harness.processes.zookeeper import zookeeper_jars

BUILD_S: Final = 900
MODULES: Final = (
    "java.base,java.logging,java.management,java.naming,java.security.jgss,java.security.sasl,java.xml,jdk.unsupported"
)
"""Of Java, what ZooKeeper needs."""
_ZOOKEEPER: Final = """\
FROM {base}
COPY java /opt/java
COPY jars /opt/jars
RUN mkdir -p /data /datalog /conf \\
 && printf 'clientPort=2181\\ndataDir=/data\\ndataLogDir=/datalog\\nadmin.enableServer=false\\n' > /conf/zoo.cfg
VOLUME ["/data", "/datalog"]
CMD ["/opt/java/bin/java", "-Xmx128m", "-cp", "/opt/jars/*", \
"org.apache.zookeeper.server.quorum.QuorumPeerMain", "/conf/zoo.cfg"]
"""
_PROMETHEUS: Final = """\
FROM {base}
COPY prometheus /bin/prometheus
ENTRYPOINT ["/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
"""


class NoImage(Exception):
    """An image cannot be built here. The message says what is missing."""


def build_kwire(engine: docker_engine.Engine, tag: str, context: Path, extras: str = "") -> None:
    """The image of the Dockerfile; from wheels if the base image comes from no registry. `NoImage`."""
    for name in ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, context)
    for name in ("kwire", "docker"):
        shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
    arguments = ["--build-arg", f"BASE_IMAGE={engine.base_image}", "--build-arg", f"EXTRAS={extras}"]
    if engine.base_image == docker_engine.BASE_IMAGE:
        if sys.version_info[:2] != (3, 11):
            raise NoImage(
                "the base image of harness/processes/docker_engine.py has Python 3.11: the wheels here are for another"
            )
        project = f"{ROOT}[{extras}]" if extras else str(ROOT)
        wheels = [sys.executable, "-m", "pip", "wheel", "-q", "-w", str(context / "wheels"), project, "hatchling"]
        subprocess.run(wheels, check=True, timeout=BUILD_S)
        arguments += ["--build-arg", "PIP_OPTIONS=--no-index --find-links /src/wheels"]
    engine.docker("build", "-t", tag, *arguments, str(context), timeout_s=BUILD_S)


def build_zookeeper(engine: docker_engine.Engine, tag: str, context: Path) -> None:
    """A ZooKeeper server of the jars that the tests use, with a Java of its own. `NoImage`."""
    if shutil.which("jlink") is None:
        raise NoImage("needs jlink (Debian's openjdk-17-jdk-headless)")
    java = ["jlink", "--add-modules", MODULES, "--strip-debug", "--no-header-files", "--no-man-pages"]
    subprocess.run([*java, "--output", str(context / "java")], check=True, timeout=BUILD_S)
    shutil.copytree(zookeeper_jars(), context / "jars")
    _build(engine, tag, context, _ZOOKEEPER)


def build_prometheus(engine: docker_engine.Engine, tag: str, context: Path) -> None:
    """Debian's Prometheus, with the command line of the official image. `NoImage`."""
    if (reason := prometheus.why_no_prometheus()) is not None:
        raise NoImage(reason)
    shutil.copy(prometheus.program(), context / "prometheus")
    _build(engine, tag, context, _PROMETHEUS)


def _build(engine: docker_engine.Engine, tag: str, context: Path, dockerfile: str) -> None:
    (context / "Dockerfile").write_text(dockerfile.format(base=engine.base_image))
    engine.docker("build", "-t", tag, str(context), timeout_s=BUILD_S)
