"""HTTPS: clients that trust the authority, clients that do not, and writes that one instance passes on to another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from compat_tests.clients.registry.conftest import USER, Secured
from harness.processes.brokers import Broker
from harness.processes.certificates import WRONG_NAME, Certificates
from harness.registries.process import Registry, RegistryFailed, call
from kwire.cli import main

SCHEMA = '{"type":"record","name":"Order","fields":[]}'
BASIC = {"Authorization": "Basic YWxpY2U6c2VjcmV0"}


def client(registry: Registry, ca: Path, url: str | None = None) -> SchemaRegistryClient:
    return SchemaRegistryClient(
        {
            "url": url or registry.url,
            "ssl.ca.location": str(ca),
            "basic.auth.user.info": USER,
            "max.retries": 0,
        }
    )


def cause(error: BaseException) -> str:
    """All that an error and those that it came from say."""
    found = []
    seen: BaseException | None = error
    while seen is not None:
        found.append(str(seen))
        seen = seen.__cause__ or seen.__context__
    return " ".join(found)


def test_who_trusts_the_authority_is_served_and_nobody_else(secured: Secured, certificates: Certificates) -> None:
    registry = secured()
    assert registry.url.startswith("https://127.0.0.1:")
    assert client(registry, certificates.ca).register_schema("a", Schema(SCHEMA, "AVRO")) == 1
    with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED") as untrusted:
        client(registry, certificates.other_ca).get_subjects()
    assert "self-signed certificate in certificate chain" in cause(untrusted.value) or "unable to get local issuer" in (
        cause(untrusted.value)
    )
    by_name = registry.url.replace("127.0.0.1", WRONG_NAME)
    with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED") as misnamed:
        client(registry, certificates.ca, by_name).get_subjects()
    assert "Hostname mismatch" in cause(misnamed.value)
    with pytest.raises(OSError):
        call(registry.url.replace("https", "http"), "GET", "/subjects")
    assert client(registry, certificates.ca).get_subjects() == ["a"]


def test_any_instance_takes_writes(secured: Secured, certificates: Certificates) -> None:
    instances = [secured(), secured()]
    for number, each in enumerate(instances):
        named = SCHEMA.replace("Order", f"Order{number}")
        assert client(each, certificates.ca).register_schema("a", Schema(named, "AVRO")) == number + 1
        assert each.call("DELETE", "/subjects/a", headers=BASIC) == (200, [1])
        assert each.call("DELETE", "/subjects/a?permanent=true", headers=BASIC) == (200, [1])


def test_an_instance_that_does_not_trust_the_leader_says_so(secured: Secured, certificates: Certificates) -> None:
    instances = [secured(certificates.other_ca), secured(certificates.other_ca)]
    answers = [each.call("PUT", "/config", {"compatibility": "FULL"}, BASIC) for each in instances]
    [done] = [each for each in answers if each.status == 200]
    [refused] = [each for each in answers if each.status != 200]
    assert done.body == {"compatibility": "FULL"}
    assert refused.code == (500, 50003)
    assert refused.body["message"].startswith("The leader https://127.0.0.1:")
    assert "certificate verify failed" in refused.body["message"]


def test_the_command_trusts_whom_it_is_told_to(
    secured: Secured, certificates: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = secured()
    words = ["schema", "list", "--registry", registry.url, "-X", f"basic.auth.user.info={USER}", "-o", "json"]
    assert main([*words, "-X", f"ssl.ca.location={certificates.ca}"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main([*words, "-X", f"ssl.ca.location={certificates.other_ca}"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"kwire: registry {registry.url}: ") and "certificate verify failed" in err


def test_an_instance_does_not_start_without_its_key(broker: Broker, topic: str, certificates: Certificates) -> None:
    with pytest.raises(RegistryFailed, match="--tls-cert and --tls-key belong together"):
        Registry(broker.bootstrap, topic, "--tls-cert", str(certificates.server.chain))
