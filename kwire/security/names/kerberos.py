"""Kafka's rules that map Kerberos principals to short names (``sasl.kerberos.principal.to.local.rules``).

A principal is ``service/host@REALM``; the host is optional. A rule is ``DEFAULT`` (the first part, if the realm is the
broker's own) or ``RULE:[n:format](match)s/from/to/g/L``. The second kind applies to principals of n parts: the parts
are put into the format (``$0`` is the realm, ``$1`` the first part), and if ``match`` matches the result, the result is
changed as by sed. The patterns are Java's (`java_regex`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from kwire.security.names.java_regex import JavaPattern
from kwire.security.names.mapping import NoMatchingRule, with_case

DEFAULT_RULES: Final = ("DEFAULT",)
_RULE: Final = r"((DEFAULT)|((RULE:\[(\d*):([^\]]*)](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?)))"
_PRINCIPAL: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_PARAMETER: Final = re.compile(r"([^$]*)(?:\$([0-9]*))?")
_INT_MAX: Final = 2**31 - 1


class KerberosName(NamedTuple):
    """The parts of a principal's name."""

    service: str
    host: str | None
    realm: str | None


class KerberosRule(NamedTuple):
    """A rule; without a number of parts it is ``DEFAULT``."""

    parts: int | None
    format: str = ""
    match: JavaPattern | None = None
    find: JavaPattern | None = None
    replacement: str = ""
    everywhere: bool = False
    case: str = ""
    """L: in lower case, U: in upper case."""

    def apply(self, parameters: Sequence[str], default_realm: str) -> str | None:
        """What the rule makes of realm and parts; None if it does not apply. Raises `ValueError` as Java does."""
        if self.parts is None:
            return _simple(parameters[1]) if parameters[0] == default_realm else None
        if len(parameters) - 1 != self.parts:
            return None
        name = _formatted(self.format, parameters)
        if self.match is not None and not self.match.matches(name):
            return None
        if self.find is not None:
            name = self.find.replace(name, self.replacement, first=not self.everywhere)
        name = _simple(name)
        return with_case(name, self.case)


class KerberosRules:
    """The rules of a broker, in their order, and its own realm."""

    def __init__(self, default_realm: str, rules: list[KerberosRule]) -> None:
        self._default_realm = default_realm
        self._rules = rules

    def short_name(self, principal: str) -> str:
        """The short name of a principal. Raises `NoMatchingRule`, and `ValueError` for a malformed name."""
        service, host, realm = parse_kerberos_name(principal)
        if realm is None:
            return service
        parameters = [realm, service] if host is None else [realm, service, host]
        for rule in self._rules:
            found = rule.apply(parameters, self._default_realm)
            if found is not None:
                return found
        raise NoMatchingRule("none of sasl.kerberos.principal.to.local.rules applies")


def parse_kerberos_name(principal: str) -> KerberosName:
    """The parts of a principal. A name without ``@`` is a service. Raises `ValueError`."""
    match = _PRINCIPAL.fullmatch(principal)
    if match is not None:
        return KerberosName(match[1], match[2], match[3])
    if "@" in principal:
        raise ValueError("a malformed Kerberos name")
    return KerberosName(principal, None, None)


def parse_kerberos_rules(default_realm: str, rules: Sequence[str] = DEFAULT_RULES) -> KerberosRules:
    """The rules of a property's list. Raises `ValueError` with one line for a wrong or unsupported rule."""
    return KerberosRules(default_realm, [_rule(rule) for rule in rules])


def _rule(rule: str) -> KerberosRule:
    match = _parser().match_start(rule)
    if match is None or match.end() != len(rule):
        raise ValueError(f"wrong rule: {rule!r}")
    if match[2] is not None:
        return KerberosRule(None)
    if match[5] == "" or int(match[5]) > _INT_MAX:
        raise ValueError(f"wrong rule, without a number of parts: {rule!r}")
    return KerberosRule(
        int(match[5]),
        match[6],
        None if match[8] is None else JavaPattern(match[8]),
        None if match[10] is None else JavaPattern(match[10]),
        match[11] or "",
        match[12] == "g",
        match[13] or "",
    )


@cache
def _parser() -> JavaPattern:
    return JavaPattern(_RULE)


def _formatted(text: str, parameters: Sequence[str]) -> str:
    """A format with its parameters filled in. Raises `ValueError` for a parameter that does not exist."""
    found, start = [], 0
    while start < len(text):
        match = _PARAMETER.match(text, start)
        assert match is not None, "the pattern matches anything"
        found.append(match[1])
        if match[2] is not None:
            if match[2] == "" or int(match[2]) >= len(parameters):
                raise ValueError("a rule names a part that Kerberos names do not have")
            found.append(parameters[int(match[2])])
        start = match.end()
    return "".join(found)


def _simple(name: str) -> str:
    """A name, if it is simple."""
    if "/" in name or "@" in name:
        raise NoMatchingRule("a rule's result is not a simple name")
    return name
