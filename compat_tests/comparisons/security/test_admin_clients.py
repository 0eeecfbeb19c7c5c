"""Users managed with the admin clients of librdkafka and kafka-python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def error_of(future: Any) -> str | None:
    """The name of the error with which a future of confluent-kafka fails."""
    try:
        future.result(20)
    except KafkaException as error:
        return str(error.args[0].name())
    return None


def test_users_with_librdkafka(admin: Any, new_name: Names, observe: Observations) -> None:
    name = new_name("alice")

    def described() -> Any:
        (future,) = admin.describe_user_scram_credentials([name]).values()
        return error_of(future) or sorted(
            (str(info.mechanism), info.iterations) for info in future.result(20).scram_credential_infos
        )

    def alter(change: Any) -> str | None:
        return error_of(admin.alter_user_scram_credentials([change])[name])

    observe("nobody", described())
    observe("add", alter(UserScramCredentialUpsertion(name, ScramCredentialInfo(SHA_256, 8192), b"secret")))
    wait_until(lambda: described() == [(str(SHA_256), 8192)], 10, "the first credential")
    observe("too few", alter(UserScramCredentialUpsertion(name, ScramCredentialInfo(SHA_512, 4095), b"secret")))
    observe("salted", alter(UserScramCredentialUpsertion(name, ScramCredentialInfo(SHA_512, 4096), b"secret", b"salt")))
    wait_until(lambda: len(described()) == 2, 10, "the second credential")
    observe("described", described())
    observe("delete", [alter(UserScramCredentialDeletion(name, each)) for each in (SHA_256, SHA_512)])
    wait_until(lambda: described() == "RESOURCE_NOT_FOUND", 10, "no credential")
    observe("delete again", alter(UserScramCredentialDeletion(name, SHA_256)))


@pytest.fixture
def kafka_python(broker: Broker) -> Iterator[Any]:
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def test_users_with_kafka_python(kafka_python: Any, new_name: Names, observe: Observations) -> None:
    from kafka import admin

    name = new_name("alice")

    def described() -> Any:
        found = kafka_python.describe_user_scram_credentials([name])[name]
        infos = [(int(info["mechanism"]), info["iterations"]) for info in found["credential_infos"]]
        return [found["error"], sorted(infos)]

    change = admin.UserScramCredentialUpsertion(name, "SCRAM-SHA-256", "secret", iterations=5000)
    observe("add", kafka_python.alter_user_scram_credentials([change]))
    wait_until(lambda: described()[1], 10, "the credential")
    observe("described", described())
    gone = admin.UserScramCredentialDeletion(name, "SCRAM-SHA-256")
    observe("delete", kafka_python.alter_user_scram_credentials([gone]))
    wait_until(lambda: not described()[1], 10, "no credential")
    observe("delete again", kafka_python.alter_user_scram_credentials([gone]))
