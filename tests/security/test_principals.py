"""Principals as texts."""

from __future__ import annotations

import pytest

from kwire.security.principals import Principal, parse_principal, parse_principals


@pytest.mark.parametrize("text", ["User:alice", "Group:a:b", "User:CN=x,O=y", "User:*"])
def test_a_principal_is_read_as_it_is_written(text: str) -> None:
    assert str(parse_principal(text)) == text


def test_the_name_may_contain_colons() -> None:
    assert parse_principal("User:a:b") == Principal("User", "a:b")


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:"])
def test_a_text_without_type_or_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a principal such as User:alice"):
        parse_principal(text)


def test_lists_have_semicolons_because_names_have_commas() -> None:
    assert parse_principals(" User:a ;; User:CN=x,O=y; ") == {Principal("User", "a"), Principal("User", "CN=x,O=y")}
    assert parse_principals("") == frozenset()
