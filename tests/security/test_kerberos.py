"""Kerberos logins from the options of a login module."""

from __future__ import annotations

import sys

import pytest

from kwire.security.kerberos import KerberosLogin, import_gssapi, kerberos_login

KEYTAB = {"useKeyTab": "true", "keyTab": "file:/etc/kafka.keytab", "principal": "kafka/host@R", "storeKey": "true"}


def test_a_keytab_is_named_as_javas_login_module_names_it() -> None:
    login = kerberos_login(KEYTAB, "kafka")
    assert login == KerberosLogin("kafka", "kafka/host@R", True, "/etc/kafka.keytab", None)


def test_a_ticket_cache_needs_no_principal() -> None:
    login = kerberos_login({"useTicketCache": "TRUE", "ticketCache": "/tmp/cc", "serviceName": "kafka"}, None)
    assert login == KerberosLogin("kafka", None, False, None, "/tmp/cc")


@pytest.mark.parametrize(
    ("options", "service", "reason"),
    [
        (KEYTAB, None, "must have serviceName, or sasl.kerberos.service.name must be set"),
        (KEYTAB | {"serviceName": "a"}, "b", "serviceName=a contradicts sasl.kerberos.service.name=b"),
        ({"serviceName": "kafka"}, None, "kwire asks nobody for a password"),
    ],
)
def test_what_cannot_log_in_is_refused(options: dict[str, str], service: str | None, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        kerberos_login(options, service)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ValueError, match=r"^GSSAPI needs the library gssapi: pip install 'kwire\[gssapi\]'"):
        import_gssapi()
