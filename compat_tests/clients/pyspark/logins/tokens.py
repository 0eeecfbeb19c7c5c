"""Delegation tokens by Spark's own provider for Kafka, in the JVM of a Spark session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from harness.processes.brokers import wait_until

CLUSTER: Final = "cluster"
_PREFIX: Final = f"spark.kafka.clusters.{CLUSTER}."


@contextmanager
def configured(spark: Any, settings: Mapping[str, str]) -> Iterator[Tokens]:
    """Spark with the settings ``spark.kafka.clusters.*`` of one cluster, without the prefix, during a ``with`` block.

    They are properties of the session, given to it before it starts; here they change while it runs.
    """
    # SparkEnv has the same object, but Py4J cannot look into that class: PySpark 4.3 lacks one that it refers to.
    spark_conf = spark._jsc.sc().conf()
    names = {_PREFIX + name: value for name, value in settings.items()}
    for name, value in names.items():
        spark_conf.set(name, value)
    try:
        yield Tokens(spark, spark_conf)
    finally:
        for name in names:
            spark_conf.remove(name)
        # A token that is left would be looked up by whatever connects later in this JVM; Hadoop cannot remove one.
        spark._jvm.org.apache.hadoop.security.UserGroupInformation.reset()


class Tokens:
    """What Spark's driver does with the tokens of a cluster, which it does itself only with Hadoop's security on."""

    def __init__(self, spark: Any, spark_conf: Any) -> None:
        self._jvm = spark._jvm
        self._hadoop_conf = spark._jsc.hadoopConfiguration()
        self._spark_conf = spark_conf

    def obtain(self) -> Any:
        """A token of the cluster, by Spark's provider, which logs a warning instead of failing; None without one.

        With Apache Kafka, the response may be there before the broker has the token.
        """
        credentials = self._jvm.org.apache.hadoop.security.Credentials()
        provider = self._jvm.org.apache.spark.kafka010.KafkaDelegationTokenProvider()
        provider.obtainDelegationTokens(self._hadoop_conf, self._spark_conf, credentials)
        token = credentials.getToken(self._service)
        if token is not None:
            self._await(bytes(token.getIdentifier()).decode())
        return token

    def try_to_obtain(self) -> None:
        """Ask for a token, with the exception if that fails."""
        self._jvm.org.apache.spark.kafka010.KafkaTokenUtil.obtainToken(self._spark_conf, self._cluster)

    def _await(self, token_id: str) -> None:
        properties = self._jvm.org.apache.spark.kafka010.KafkaTokenUtil.createAdminClientProperties(
            self._spark_conf, self._cluster
        )
        admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(properties)

        def there() -> bool:
            described = admin.describeDelegationToken().delegationTokens().get()
            return token_id in [token.tokenInfo().tokenId() for token in described]

        try:
            wait_until(there, 20, "the token")
        finally:
            admin.close()

    def use(self, token: Any) -> None:
        """Give a token to all sources and sinks that connect to the cluster."""
        users = self._jvm.org.apache.hadoop.security.UserGroupInformation
        users.getCurrentUser().addToken(self._service, token)

    def with_password(self, token: Any, password: bytes) -> Any:
        """The same token with another password (HMAC)."""
        made = self._jvm.org.apache.hadoop.security.token.Token
        return made(token.getIdentifier(), bytearray(password), token.getKind(), token.getService())

    @property
    def _cluster(self) -> Any:
        of_clusters = self._jvm.org.apache.spark.kafka010.KafkaTokenSparkConf
        return of_clusters.getClusterConfig(self._spark_conf, CLUSTER)

    @property
    def _service(self) -> Any:
        return self._jvm.org.apache.spark.kafka010.KafkaTokenUtil.getTokenService(CLUSTER)
