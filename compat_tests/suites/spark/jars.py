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

# The newest Spark whose artefacts all resolve from Maven Central; it uses kafka-clients 3.9.0.
SPARK_VERSION = "4.0.0"
SCALATEST_VERSION = "3.2.19"

_TESTS = [f"{name}_2.13" for name in ("spark-sql-kafka-0-10", "spark-sql", "spark-core", "spark-catalyst")]
_TESTS += [f"{name}_2.13" for name in ("spark-common-utils", "spark-tags", "spark-token-provider-kafka-0-10")]
_DEPENDENCIES: list[tuple[str, ...]] = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.spark", "spark-sql_2.13", SPARK_VERSION),
    *(("org.apache.spark", name, SPARK_VERSION, "tests") for name in _TESTS),
    ("org.scalatest", "scalatest_2.13", SCALATEST_VERSION),
    ("org.scalatestplus", "scalacheck-1-18_2.13", f"{SCALATEST_VERSION}.0"),
    ("org.scalatestplus", "mockito-5-12_2.13", f"{SCALATEST_VERSION}.0"),
    ("junit", "junit", "4.13.2"),
    ("org.jmock", "jmock", "2.13.1"),
]
_SUITES = f"spark-sql-kafka-0-10_2.13-{SPARK_VERSION}-tests.jar"
_REPLACED = "kafka010/KafkaTestUtils"
_JAVA = Path(__file__).parent / "java"


@cache
def classpath() -> str:
    """The class path of the suites: the classes of `java/`, the suites, and all jars. Raises `JarsUnavailable`."""
    folder = _jars()
    classes = compile_java(_JAVA.rglob("*.java"), lambda: f"{folder}/*")
    return f"{classes}:{_JAVA.parent}/conf:{suites()}:{folder}/*"


@cache
def suites() -> Path:
    """The folder with the classes and resources of the suites. Raises `JarsUnavailable`."""
    folder = _jars()
    with locked("spark-jars"):
        jar, unpacked = folder / _SUITES, folder / "suites"
        if jar.exists():
            with zipfile.ZipFile(jar) as content:
                content.extractall(unpacked, [name for name in content.namelist() if _REPLACED not in name])
            jar.unlink()
    return unpacked


def _jars() -> Path:
    what = f"Spark {SPARK_VERSION}'s connector and its tests (350 MB)"
    return maven_jars(f"spark-suites-{SPARK_VERSION}", what, _DEPENDENCIES)
