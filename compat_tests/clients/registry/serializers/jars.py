"""Serializers for Java that write Confluent's wire format, from Maven Central, and the programs of `java/`.

Confluent's own serializers are not on Maven Central. Artifacts of others that contain them could not be fetched from
there: Apache Pinot's plugins (`pinot-confluent-avro`, `-json`, `-protobuf`), Apache Hudi's
`hudi-utilities-bundle_2.12` and `hudi-utilities-slim-bundle_2.12`, Snowflake's `snowflake-kafka-connector`, WSO2's
`org.wso2.orbit.io.confluent`. Trino's plugin has them for its tests only.

Confluent's client for Java, 7.5.3, is inside Flink's jar, under other names of packages. Apicurio's serializers call
a registry with Apicurio's own interface by default; here they are given another `SchemaResolver`, which is written
for the tests and calls Confluent's client.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from harness.java_runner import java_class_path
from harness.kafka_jars import compile_java, maven_jars

APICURIO: Final = "3.1.7"
FLINK: Final = "2.0.0"
_JAVA: Final = Path(__file__).parent / "java"
_APICURIO: Final = [
    *(
        ("io.apicurio", f"apicurio-registry-{each}-serde-kafka", APICURIO)
        for each in ("avro", "jsonschema", "protobuf")
    ),
    ("org.jetbrains.kotlin", "kotlin-stdlib", "2.3.0"),  # as Apicurio builds with; what is nearer in the tree is older
]
_FLINK: Final = [
    ("org.apache.flink", "flink-core", FLINK),
    ("org.apache.flink", "flink-sql-avro-confluent-registry", FLINK),
]
_WITH_KAFKA: Final = "-DexcludeArtifactIds=kafka-clients,lz4-java,snappy-java,zstd-jni"


def _jars() -> str:
    apicurio = maven_jars(f"apicurio-serdes-{APICURIO}", f"Apicurio's serializers {APICURIO}", _APICURIO, _WITH_KAFKA)
    flink = maven_jars(f"flink-avro-{FLINK}", f"Flink's Avro {FLINK} with Confluent's client", _FLINK)
    return f"{java_class_path()}:{apicurio}/*:{flink}/*"


@cache
def class_path() -> str:
    """The class path of the programs, with Kafka's clients of the harness. `JarsUnavailable`."""
    return f"{_jars()}:{compile_java(_JAVA.glob('*.java'), _jars)}"
