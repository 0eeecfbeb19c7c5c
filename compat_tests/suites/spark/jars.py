"""Spark's connector, its published test jars and ScalaTest, fetched once through Maven, and the classes of `java/`.

The suites are unpacked from their jar, because some open their resources as files; all but their `KafkaTestUtils`,
which starts an embedded broker and is replaced by the class in `java/`. What lives elsewhere: running a suite
(`suite.py`).
"""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path

from harness.kafka_jars import compile_java, locked, maven_jars

SPARK_VERSION = "4.0.0"  # the one of the compatibility tests; it uses kafka-clients 3.9.0
NEWEST_VERSION = "4.2.0"  # the newest with all of its connector on Maven Central; it uses kafka-clients 3.9.2
VERSIONS = (SPARK_VERSION, NEWEST_VERSION)
SCALATEST_VERSION = "3.2.19"
# The provider of tokens has a test jar for 4.0.0 only; with it, the provider of the newest is tested, too.
_PROVIDER_TESTS_VERSION = SPARK_VERSION

_TESTS = [f"{name}_2.13" for name in ("spark-sql-kafka-0-10", "spark-sql", "spark-core", "spark-catalyst")]
_TESTS += [f"{name}_2.13" for name in ("spark-common-utils", "spark-tags")]


def _dependencies(version: str) -> list[tuple[str, ...]]:
    return [
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", version),
        ("org.apache.spark", "spark-sql_2.13", version),
        *(("org.apache.spark", name, version, "tests") for name in _TESTS),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", _PROVIDER_TESTS_VERSION, "tests"),
        ("org.scalatest", "scalatest_2.13", SCALATEST_VERSION),
        ("org.scalatestplus", "scalacheck-1-18_2.13", f"{SCALATEST_VERSION}.0"),
        ("org.scalatestplus", "mockito-5-12_2.13", f"{SCALATEST_VERSION}.0"),
        ("junit", "junit", "4.13.2"),
        ("org.jmock", "jmock", "2.13.1"),
    ]


_REPLACED = "kafka010/KafkaTestUtils"
_JAVA = Path(__file__).parent / "java"


@cache
def classpath(version: str = SPARK_VERSION) -> str:
    """The class path of a Spark's suites: the classes of `java/`, the suites, and all jars. Raises
    `JarsUnavailable`."""
    folder = _jars(version)
    classes = compile_java(_JAVA.rglob("*.java"), lambda: f"{folder}/*")
    return f"{classes}:{_JAVA.parent}/conf:{suites(version)}:{folder}/*"


@cache
def suites(version: str = SPARK_VERSION) -> Path:
    """The folder with the classes and resources of a Spark's suites. Raises `JarsUnavailable`."""
    folder = _jars(version)
    with locked("spark-jars"):
        jar, unpacked = folder / f"spark-sql-kafka-0-10_2.13-{version}-tests.jar", folder / "suites"
        if jar.exists():
            with zipfile.ZipFile(jar) as content:
                content.extractall(unpacked, [name for name in content.namelist() if _REPLACED not in name])
            jar.unlink()
    return unpacked


def _jars(version: str) -> Path:
    what = f"Spark {version}'s connector and its tests (350 MB)"
    return maven_jars(f"spark-suites-{version}", what, _dependencies(version))
