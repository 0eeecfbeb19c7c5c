"""The `zookeeper.*` properties of Kafka 3.9, the last version with ZooKeeper, and kwire's own. Written by hand.

The default of `zookeeper.session.timeout.ms` is kwire's; Kafka's was 18 s.
"""

from __future__ import annotations

ROWS = (
    ("kwire.zookeeper.sasl.jaas.config", "PASSWORD", None, "MEDIUM", "read-only", None),
    ("zookeeper.clientCnxnSocket", "STRING", None, "MEDIUM", "read-only", None),
    ("zookeeper.connect", "STRING", None, "HIGH", "read-only", None),
    ("zookeeper.connection.timeout.ms", "INT", None, "HIGH", "read-only", ("range", 1, None)),
    ("zookeeper.max.in.flight.requests", "INT", 10, "MEDIUM", "read-only", ("range", 1, None)),
    ("zookeeper.metadata.migration.enable", "BOOLEAN", False, "HIGH", "read-only", None),
    ("zookeeper.session.timeout.ms", "INT", 9000, "HIGH", "read-only", ("range", 1, None)),
    ("zookeeper.set.acl", "BOOLEAN", False, "HIGH", "read-only", None),
    ("zookeeper.ssl.cipher.suites", "LIST", None, "LOW", "read-only", None),
    ("zookeeper.ssl.client.enable", "BOOLEAN", False, "MEDIUM", "read-only", None),
    ("zookeeper.ssl.crl.enable", "BOOLEAN", False, "LOW", "read-only", None),
    ("zookeeper.ssl.enabled.protocols", "LIST", None, "LOW", "read-only", None),
    ("zookeeper.ssl.endpoint.identification.algorithm", "STRING", "HTTPS", "LOW", "read-only", None),
    ("zookeeper.ssl.keystore.location", "STRING", None, "MEDIUM", "read-only", None),
    ("zookeeper.ssl.keystore.password", "PASSWORD", None, "MEDIUM", "read-only", None),
    ("zookeeper.ssl.keystore.type", "STRING", None, "MEDIUM", "read-only", None),
    ("zookeeper.ssl.ocsp.enable", "BOOLEAN", False, "LOW", "read-only", None),
    ("zookeeper.ssl.protocol", "STRING", "TLSv1.2", "LOW", "read-only", None),
    ("zookeeper.ssl.truststore.location", "STRING", None, "MEDIUM", "read-only", None),
    ("zookeeper.ssl.truststore.password", "PASSWORD", None, "MEDIUM", "read-only", None),
    ("zookeeper.ssl.truststore.type", "STRING", None, "MEDIUM", "read-only", None),
)
