"""Rules for the names of Kerberos principals. `campaigns.security_names` compares them with Kafka's."""

from __future__ import annotations

import pytest

from kwire.security.names.kerberos import parse_kerberos_rules
from kwire.security.names.mapping import NoMatchingRule

REALM = "EXAMPLE.COM"


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        (["DEFAULT"], "alice@EXAMPLE.COM", "alice"),
        (["DEFAULT"], "kafka/broker1@EXAMPLE.COM", "kafka"),
        (["DEFAULT"], "alice", "alice"),
        (["RULE:[1:$1@$0](.*@OTHER.ORG)s/@.*//", "DEFAULT"], "bob@OTHER.ORG", "bob"),
        (["RULE:[1:$1@$0](.*@OTHER.ORG)s/@.*//", "DEFAULT"], "bob@EXAMPLE.COM", "bob"),
        (["RULE:[2:$1-$2]"], "kafka/broker1@ANY", "kafka-broker1"),
        (["RULE:[2:$1](kafka)s/^.*$/broker/"], "kafka/broker1@ANY", "broker"),
        (["RULE:[1:$1]s/a/x/"], "banana@ANY", "bxnana"),
        (["RULE:[1:$1]s/a/x/g"], "banana@ANY", "bxnxnx"),
        (["RULE:[1:$1]s/(an)/<$1>/g"], "banana@ANY", "b<an><an>a"),
        (["RULE:[1:$1]/L"], "Alice@ANY", "alice"),
        (["RULE:[1:$1]/U"], "Alice@ANY", "ALICE"),
        (["RULE:[1:$1]L"], "Alice@ANY", "alice"),
        (["RULE:[2:x]", "RULE:[1:y]"], "alice@ANY", "y"),
    ],
)
def test_the_first_rule_that_applies_gives_the_short_name(rules: list[str], principal: str, name: str) -> None:
    assert parse_kerberos_rules(REALM, rules).short_name(principal) == name


@pytest.mark.parametrize("principal", ["alice@OTHER.ORG", "kafka/b@OTHER.ORG"])
def test_a_principal_of_another_realm_has_no_name_by_default(principal: str) -> None:
    with pytest.raises(NoMatchingRule):
        parse_kerberos_rules(REALM).short_name(principal)


def test_a_result_that_is_not_simple_is_refused() -> None:
    with pytest.raises(NoMatchingRule):
        parse_kerberos_rules(REALM, ["RULE:[1:$1@$0]", "DEFAULT"]).short_name("alice@EXAMPLE.COM")


@pytest.mark.parametrize("principal", ["a@b@c", "a/b/c@R"])
def test_a_malformed_principal_is_refused(principal: str) -> None:
    with pytest.raises(ValueError, match="malformed"):
        parse_kerberos_rules(REALM).short_name(principal)


@pytest.mark.parametrize(
    "rule", ["", "default", "DEFAULT/L", "RULE:[1]", "RULE:[:$1]", "RULE:[1:$1](a", "RULE:[1:$1]s/a/b"]
)
def test_a_wrong_rule_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="wrong rule"):
        parse_kerberos_rules(REALM, [rule])


@pytest.mark.parametrize("shape", ["$2", "$", "$99999999999"])
def test_a_format_with_a_part_that_is_not_there_is_an_error_when_it_is_used(shape: str) -> None:
    rules = parse_kerberos_rules(REALM, [f"RULE:[1:{shape}]"])
    assert rules.short_name("simple") == "simple"
    with pytest.raises(ValueError, match="names a part"):
        rules.short_name("alice@EXAMPLE.COM")
