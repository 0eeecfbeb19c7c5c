"""Rules for the names of TLS clients. `campaigns.security_names` compares them with Kafka's."""

from __future__ import annotations

import pytest

from kwire.security.names.java_regex import ReplacementError, UnsupportedPattern
from kwire.security.names.mapping import NoMatchingRule, parse_mapping_rules

DN = "CN=Kafka-Admin.example.com,OU=data,O=Example\\, Inc.,C=DE"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", DN),
        (" DEFAULT ", DN),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/", "Kafka-Admin.example.com@data"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L", "kafka-admin.example.com@data"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", "KAFKA-ADMIN.EXAMPLE.COM@DATA"),
        ("RULE:^CN=nobody$/x/, RULE:.*OU=(\\w+),.*/$1/, DEFAULT", "data"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.-]*).*$/$1/L,DEFAULT", "kafka-admin.example.com"),
        ("RULE:^CN=(?<who>[^.]+).*$/${who}/", "Kafka-Admin"),
        ("RULE:^CN=(.*?),.*$/$1-$2/", "Kafka-Admin.example.com-$2"),
        ("RULE:^CN=(.*?),.*$/$10/", "Kafka-Admin.example.com0"),
        ("RULE:^CN=.*$/a\\/b\\$1/", "a/b$1"),
        (",,DEFAULT", DN),
    ],
)
def test_the_first_rule_that_matches_gives_the_name(rules: str, name: str) -> None:
    assert parse_mapping_rules(rules).apply(DN) == name


def test_a_pattern_is_replaced_wherever_it_is_found_as_in_kafka() -> None:
    assert parse_mapping_rules("RULE:(.*)/<$1>/").apply("CN=a") == "<CN=a><>"


def test_a_name_without_a_rule_has_no_principal() -> None:
    with pytest.raises(NoMatchingRule):
        parse_mapping_rules("RULE:^CN=nobody$/x/").apply(DN)
    with pytest.raises(NoMatchingRule):
        parse_mapping_rules("").apply(DN)


@pytest.mark.parametrize(
    "rules", ["default", "RULE:", "RULE:a/b", "RULE:a/b/X", "RULE:a/b/L DEFAULT", "DEFAULT DEFAULT"]
)
def test_a_wrong_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"^wrong rule: [^\n]+$"):
        parse_mapping_rules(rules)


@pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", "*", "\\y", "(?<n>a)(?<n>b)", "a)"])
def test_a_pattern_that_java_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="the regular expression has "):
        parse_mapping_rules(f"RULE:{pattern}/x/")


def test_a_pattern_that_is_not_supported_is_named() -> None:
    with pytest.raises(UnsupportedPattern, match="the regular expression has a Unicode property near character 4"):
        parse_mapping_rules("RULE:a\\p{L}/x/")


@pytest.mark.parametrize("replacement", ["$", "${no}", "$x", "$99999999999"])
def test_a_wrong_replacement_is_an_error_when_it_is_used(replacement: str) -> None:
    rules = parse_mapping_rules(f"RULE:CN=(a)/{replacement}/,DEFAULT")
    assert rules.apply("CN=b") == "CN=b"
    with pytest.raises(ReplacementError):
        rules.apply("CN=a")
