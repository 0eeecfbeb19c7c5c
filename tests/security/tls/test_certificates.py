"""Facts of certificates, and which of them may replace which while a broker runs."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import trustme

from kwire.security.tls.certificates import CertificateFacts, certificate_facts, check_replacement
from kwire.security.tls.settings import StoreProblem, TlsError

STORES = Path(__file__).parent / "stores"


def certificate(*hosts: str, common_name: str = "broker") -> str:
    issued = trustme.CA().issue_cert(*hosts, common_name=common_name, organization_unit_name="brokers")
    return issued.cert_chain_pems[0].bytes().decode()


def test_a_certificate_tells_its_names_and_how_long_it_is_valid() -> None:
    facts = certificate_facts((STORES / "chain.crt").read_text())
    assert [each.subject for each in facts] == ["CN=Test CA,O=kwire", "CN=localhost,OU=brokers,O=kwire"]
    assert facts[1].alternative_names == {"DNS:localhost", "IP:127.0.0.1"}
    year_2100_ms = int(datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC).timestamp() * 1000)
    assert all(each.not_before_ms < year_2100_ms < each.not_after_ms for each in facts)


def test_a_certificate_without_hosts_has_no_alternative_names() -> None:
    facts = certificate_facts((STORES / "ca.crt").read_text())
    assert facts == [CertificateFacts("CN=Test CA,O=kwire", frozenset(), *facts[0][2:])]


def test_a_renewed_certificate_may_have_more_hosts_and_another_authority() -> None:
    check_replacement(certificate("a.example"), certificate("a.example", "b.example"))


def test_a_certificate_that_lost_a_host_is_refused_unless_allowed() -> None:
    old, new = certificate("a.example", "b.example"), certificate("b.example")
    with pytest.raises(TlsError, match=r"lacks the names DNS:a.example \(ssl.allow.san.changes\)"):
        check_replacement(old, new)
    check_replacement(old, new, allow_san_changes=True)


def test_a_certificate_of_another_name_is_refused_unless_allowed() -> None:
    old, new = certificate("a.example"), certificate("a.example", common_name="other")
    with pytest.raises(TlsError, match=r"is not .*CN=broker.* \(ssl.allow.dn.changes\)"):
        check_replacement(old, new)
    check_replacement(old, new, allow_dn_changes=True)


def test_names_may_differ_in_case() -> None:
    check_replacement(certificate("a.example"), certificate("a.example", common_name="Broker"), allow_dn_changes=False)


def test_a_damaged_certificate_is_refused() -> None:
    text = (STORES / "ca.crt").read_text().splitlines()
    with pytest.raises(StoreProblem, match="damaged"):
        certificate_facts("\n".join([*text[:3], *text[5:]]))
