"""Spark obtains delegation tokens (`spark.kafka.clusters.*`), and its source and sink log in with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.clients.pyspark.copies import attempts, copied
from compat_tests.clients.pyspark.frames import Frames
from compat_tests.clients.pyspark.logins.tokens import configured
from compat_tests.clients.pyspark.refusals import refusal
from compat_tests.clients.security.options import options_of
from compat_tests.clients.security.test_logins import INVALID, security_for
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.secured import SecuredBroker

pytestmark = pytest.mark.java

SCRAM: Final = "SCRAM-SHA-512"


def by_certificate(broker: SecuredBroker) -> dict[str, str]:
    """Options with which Spark asks for a token over mutual TLS."""
    properties = options_of("java", security_for(broker, "MTLS"))
    return {"auth.bootstrap.servers": broker.address("MTLS"), **properties}


def by_password(broker: SecuredBroker, mechanism: str = "SCRAM-SHA-256", password: str | None = None) -> dict[str, str]:
    """Options with which Spark asks for a token after a login with a password."""
    properties = options_of("java", security_for(broker, "SASL_SSL", mechanism, "alice", password))
    sasl = {f"kafka.{name}": value for name, value in properties.items() if name.startswith("sasl.")}
    others = {name: value for name, value in properties.items() if not name.startswith("sasl.")}
    address = broker.address("SASL_SSL")
    return {
        "auth.bootstrap.servers": address,
        "target.bootstrap.servers.regex": address,
        "sasl.token.mechanism": SCRAM,
        **others,
        **sasl,
    }


def frames_with_token(spark: Any, broker: SecuredBroker, folder: Path) -> Frames:
    """Frames whose options say nothing of a login: Spark adds that of the token."""
    transport = options_of("java", security_for(broker, "SASL_SSL"))
    return Frames(spark, broker.address("SASL_SSL"), folder, transport)


@pytest.mark.parametrize("settings", [by_certificate, by_password], ids=lambda settings: settings.__name__)
def test_a_source_and_a_sink_log_in_with_the_token_that_spark_got(
    spark: Any, secured: SecuredBroker, tmp_path: Path, new_name: Names, settings: Any
) -> None:
    with configured(spark, settings(secured)) as tokens:
        token = tokens.obtain()
        assert token is not None
        tokens.use(token)
        copied(frames_with_token(spark, secured, tmp_path), new_name)


def test_a_token_with_a_wrong_hmac_is_refused(
    spark: Any, secured: SecuredBroker, observe: Observations, tmp_path: Path, new_name: Names
) -> None:
    with configured(spark, by_password(secured)) as tokens:
        tokens.use(tokens.with_password(tokens.obtain(), b"wrong"))
        for name, attempt in attempts(frames_with_token(spark, secured, tmp_path), new_name).items():
            told = refusal(attempt)
            assert told[-1][1] == INVALID[SCRAM]
            observe(name, told)


@pytest.mark.parametrize(
    ("listener", "settings"),
    [
        ("SSL", lambda broker: {**by_certificate(broker), "auth.bootstrap.servers": broker.address("SSL")}),
        ("SASL_SSL", lambda broker: by_password(broker, password="wrong")),
    ],
    ids=["without a user", "wrong password"],
)
def test_no_token_without_a_login(
    spark: Any, secured: SecuredBroker, observe: Observations, listener: str, settings: Any
) -> None:
    with configured(spark, settings(secured)) as tokens:
        observe("error", refusal(tokens.try_to_obtain))
        assert tokens.obtain() is None
