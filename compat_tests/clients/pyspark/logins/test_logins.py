"""Spark's Kafka source and sink over every protocol with every mechanism: who may reads and writes, who may not is told
the same by both brokers. OAUTHBEARER and GSSAPI need servers beside the broker: `test_issued_logins`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients.pyspark.copies import attempts, copied
from compat_tests.clients.pyspark.frames import Frames
from compat_tests.clients.pyspark.refusals import refusal
from compat_tests.clients.security.options import Security, options_of
from compat_tests.clients.security.test_logins import (
    INVALID,
    LOGINS,
    WRONG_LOGINS,
    misnamed,
    security_for,
    unidentified,
    untrusted,
    untrusting,
)
from compat_tests.names import Names
from harness.observations import Observations
from harness.paths import ROOT
from harness.processes.secured import SecuredBroker

pytestmark = pytest.mark.java

ERRORS = "org.apache.kafka.common.errors."


@pytest.mark.parametrize(("listener", "mechanism"), [("SSL", ""), ("MTLS", ""), *LOGINS])
def test_who_may_reads_and_writes(
    spark: Any, secured: SecuredBroker, tmp_path: Path, new_name: Names, listener: str, mechanism: str
) -> None:
    client = options_of("java", security_for(secured, listener, mechanism))
    frames = Frames(spark, secured.address(listener), tmp_path, client)
    copied(frames, new_name)


@pytest.mark.parametrize(("listener", "mechanism", "user"), WRONG_LOGINS)
def test_a_wrong_password_and_an_unknown_user_are_refused_with_the_same_text(
    spark: Any,
    secured: SecuredBroker,
    observe: Observations,
    tmp_path: Path,
    new_name: Names,
    listener: str,
    mechanism: str,
    user: str,
) -> None:
    client = options_of("java", security_for(secured, listener, mechanism, user, "wrong"))
    frames = Frames(spark, secured.address(listener), tmp_path, client)
    for name, attempt in attempts(frames, new_name).items():
        told = refusal(attempt)
        assert told[-1] == (f"{ERRORS}SaslAuthenticationException", INVALID[mechanism])
        observe(name, told)


@pytest.mark.parametrize("why", [untrusting, misnamed, unidentified, untrusted], ids=lambda why: why.__name__)
def test_without_the_right_certificates_nothing_is_read_or_written(
    spark: Any,
    secured: SecuredBroker,
    observe: Observations,
    tmp_path: Path,
    new_name: Names,
    why: Callable[[SecuredBroker], tuple[str, Security]],
) -> None:
    bootstrap, security = why(secured)
    frames = Frames(spark, bootstrap, tmp_path, options_of("java", security))
    for name, attempt in attempts(frames, new_name).items():
        told = [exception for exception, _ in refusal(attempt)]  # the texts are those of Java's and OpenSSL's TLS
        assert f"{ERRORS}SslAuthenticationException" in told
        observe(name, told)


def test_the_options_of_the_guide_work_as_they_are_pasted(spark: Any, secured: SecuredBroker, new_name: Names) -> None:
    text = (ROOT / "docs" / "TLS_AND_SASL.md").read_text().partition("### Spark")[2]
    block = re.search(r"```python\n(.*?)```", text, re.S)
    assert block is not None
    names = {"localhost:9093": secured.address("SASL_SSL"), "ca.pem": str(secured.certificates.ca)}
    program = block[1]
    for name, here in {**names, '"greetings"': f'"{new_name("greetings")}"'}.items():
        assert name in program
        program = program.replace(name, here)
    shown: dict[str, Any] = {"spark": spark}
    exec(program, shown)
    assert [row.text for row in shown["greetings"].collect()] == ["hello from Spark"]
