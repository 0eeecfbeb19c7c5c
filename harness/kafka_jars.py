"""Apache Kafka's jars, fetched once through Maven, and Java sources compiled against them.

Here: the download into a cache folder, the class path, a cached `javac`. Not here: starting a broker (`brokers.py`)
or running Kafka's tools (`java_runner.py`).

Everything lands in ``$KWIRE_CACHE`` (default ``~/.cache/kwire``), under a folder named after Kafka's version. A file
lock keeps parallel test processes from downloading twice, and a marker file is written last, so that an interrupted
download is started again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from harness.downloads import attempted

KAFKA_VERSION = "4.3.1"
SCALA_VERSION = "2.13"
_COMPLETE = ".complete"
LOG4J_VERSION = "2.25.4"  # the version in Kafka's own distribution

_KAFKA = (
    ("org.apache.kafka", f"kafka_{SCALA_VERSION}", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
)
_STREAMS = ("org.apache.kafka", "kafka-streams", KAFKA_VERSION)
_STREAMS_ARTIFACTS = "kafka-streams,rocksdbjni"  # the rest is with Kafka's own jars

# Tools and brokers log errors only, on standard error. A test can set `kafka.log.level` to see more.
_LOG4J = """status = error
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss,SSS} %p %c{1}: %m%n
rootLogger.level = ${sys:kafka.log.level:-WARN}
rootLogger.appenderRef.err.ref = err
"""


class JarsUnavailable(Exception):
    """Java or Maven is missing, or the download failed; the message says which, in one line."""


def cache_root() -> Path:
    """The folder for everything that is downloaded or compiled for tests, campaigns and tools."""
    return Path(os.environ.get("KWIRE_CACHE") or Path.home() / ".cache" / "kwire")


@cache
def why_no_java() -> str | None:
    """What is missing for Java, by name; None if nothing is."""
    missing = [tool for tool in ("java", "javac") if shutil.which(tool) is None]
    if shutil.which("mvn") is None and not (_jars_dir() / _COMPLETE).exists():
        missing.append("mvn (Maven)")
    if not missing:
        return None
    return f"needs {', '.join(missing)} on PATH, not found"


def kafka_jars_dir() -> Path:
    """The folder with Apache Kafka's jars, fetched on first use. Raises `JarsUnavailable`."""
    return maven_jars(_jars_dir().name, f"Apache Kafka {KAFKA_VERSION}", _KAFKA, files={"log4j2.properties": _LOG4J})


def kafka_classpath() -> str:
    """A Java class path with Apache Kafka, its tools and a quiet log binding. Raises `JarsUnavailable`."""
    return f"{kafka_jars_dir()}/*"


def streams_classpath() -> str:
    """The same with Kafka Streams and its RocksDB, which are fetched on first use (70 MB). Raises `JarsUnavailable`."""
    only = f"-DincludeArtifactIds={_STREAMS_ARTIFACTS}"
    folder = maven_jars(f"kafka-streams-{KAFKA_VERSION}", f"Kafka Streams {KAFKA_VERSION}", [_STREAMS], only)
    return f"{kafka_classpath()}:{folder}/*"


def java_command(*arguments: str, heap: str = "256m", options: Iterable[str] = ()) -> list[str]:
    """The command line of a JVM with Kafka's jars: small heap, quick start, quiet log.

    Kafka's jars must come first on the class path, for the classes that `class_archive` holds to be taken from it.
    """
    config = kafka_jars_dir() / "log4j2.properties"
    flags = [f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true"]
    if class_archive().exists():
        flags += ["-Xshare:auto", "-Xlog:disable", f"-XX:SharedArchiveFile={class_archive()}"]
    return ["java", *flags, f"-Dlog4j2.configurationFile={config}", *options, *arguments]


@cache
def class_archive() -> Path:
    """Where this Java's archive of loaded Kafka classes is kept; it halves the time of a broker's start. A broker that
    is started once writes it (`brokers.py`)."""
    java = Path(shutil.which("java") or "java").resolve()
    mark = hashlib.sha256(f"{java} {java.stat().st_mtime_ns if java.exists() else 0}".encode()).hexdigest()[:12]
    return kafka_jars_dir() / f"classes-{mark}.jsa"


def compile_java(sources: Iterable[Path | str], classpath: Callable[[], str] = kafka_classpath) -> Path:
    """Compile Java files against Kafka's jars (or more of them); return the classes folder.

    The folder is cached by the sources' content, so that an unchanged set costs nothing. Raises `JarsUnavailable`
    without Java and `subprocess.CalledProcessError` (with the compiler's words) for sources that do not compile.
    """
    paths = sorted(Path(source) for source in sources)
    reason = why_no_java()
    if reason:
        raise JarsUnavailable(reason)
    jars = classpath()
    digest = hashlib.sha256(jars.encode())
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    classes = cache_root() / f"classes-{digest.hexdigest()[:16]}"
    if classes.exists():
        return classes
    with locked(classes.name):
        if not classes.exists():
            _compile(paths, jars, classes)
    return classes


def _compile(paths: list[Path], jars: str, classes: Path) -> None:
    partial = classes.with_name(f"{classes.name}.{os.getpid()}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    command = ["javac", "-nowarn", "-cp", jars, "-d", str(partial), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    partial.rename(classes)


def _jars_dir() -> Path:
    return cache_root() / f"kafka-{KAFKA_VERSION}"


def maven_jars(
    name: str, what: str, wanted: Iterable[tuple[str, ...]], *options: str, files: Mapping[str, str] | None = None
) -> Path:
    """The folder ``name`` of the cache with jars and all that they depend on, fetched on first use.

    ``wanted``: (group, artifact, version) each, and a classifier where there is one; ``options`` are those of Maven's
    `copy-dependencies`. ``files`` (name -> text) lie beside the jars. The file `.complete` is written last, with what
    was wanted. Raises `JarsUnavailable`.
    """
    folder = cache_root() / name
    pom = _pom(name, wanted)
    if not _is_complete(folder, pom):
        with locked(name):
            if not _is_complete(folder, pom):
                folder.mkdir(parents=True, exist_ok=True)
                for file, text in {**(files or {}), "pom.xml": pom}.items():
                    (folder / file).write_text(text)
                _fetch(folder, what, options)
                (folder / _COMPLETE).write_text(pom)
    return folder


def _is_complete(folder: Path, pom: str) -> bool:
    """Whether all that a pom wants is in a folder; what an earlier one wanted may be less."""
    complete = folder / _COMPLETE
    return complete.exists() and complete.read_text() == pom


def _pom(name: str, wanted: Iterable[tuple[str, ...]]) -> str:
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kwire.compat</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    {"".join(_dependency(*each) for each in wanted)}
  </dependencies>
</project>
"""


def _dependency(group: str, artifact: str, version: str, classifier: str = "") -> str:
    kind = f"<classifier>{classifier}</classifier>" if classifier else ""
    place = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    return f"<dependency>{place}{kind}</dependency>"


def _fetch(folder: Path, what: str, options: Iterable[str]) -> None:
    """Copy all that the pom in a folder depends on beside it."""
    if shutil.which("mvn") is None:
        raise JarsUnavailable("needs mvn (Maven) on PATH, not found")
    print(f"fetching {what} through Maven into {folder} (once) ...", file=sys.__stderr__, flush=True)
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    # -C: a file whose checksum is wrong is an error; -U: what failed before is fetched again.
    command = ["mvn", "-q", "-B", "-C", "-U", "-f", f"{folder}/pom.xml", goal]
    command += ["-Daether.connector.requestTimeout=60000", "-Dmaven.wagon.rto=60000"]  # not half an hour
    command += [f"-DoutputDirectory={folder}", "-DincludeScope=runtime", *options]

    def attempt() -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise JarsUnavailable(f"Maven could not fetch {what}: {_first_error(done.stdout)}")

    with locked("maven"):  # two processes must not write to Maven's own repository at once
        attempted(what, attempt, JarsUnavailable)
    if not list(folder.glob("*.jar")):
        raise JarsUnavailable(f"Maven ended well, but its jars are not in {folder}")


def _first_error(output: str) -> str:
    return next((line for line in output.splitlines() if "ERROR" in line), "no error line")


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold an exclusive lock across processes; it vanishes with its holder."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with open(root / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
