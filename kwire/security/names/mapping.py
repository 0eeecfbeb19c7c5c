"""Kafka's rules that shorten the distinguished names of TLS clients (``ssl.principal.mapping.rules``, KIP-371).

A list of ``DEFAULT`` (the name as it is) and ``RULE:pattern/replacement/[LU]``; the first rule whose pattern matches
the whole name gives the name of the principal. Patterns and replacements are Java's (`java_regex`), with two details:
when a pattern matches the whole name, all its matches within the name are replaced, and ``$4`` is plain text if the
pattern has only three groups.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from kwire.security.names.java_regex import JavaPattern, ReplacementError

DEFAULT_RULES: Final = "DEFAULT"
_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_INT_MAX: Final = 2**31 - 1
_TRIMMED: Final = "".join(map(chr, range(33)))


def with_case(name: str, case: str) -> str:
    """A name in the case that a rule ends with: L for lower, U for upper, otherwise unchanged. Whether a capital sigma
    ends a word follows Python's (Unicode's) rule; Java's differs."""
    return name.lower() if case == "L" else name.upper() if case == "U" else name


class NoMatchingRule(ValueError):
    """No rule applies to a name: the client has no principal."""


class MappingRule(NamedTuple):
    """A rule; without a pattern it is ``DEFAULT``."""

    pattern: JavaPattern | None
    replacement: str = ""
    case: str = ""
    """L: in lower case, U: in upper case."""

    def apply(self, name: str) -> str | None:
        """What the rule makes of a name; None if it does not apply. Raises `ReplacementError`."""
        if self.pattern is None:
            return name
        if not self.pattern.matches(name):
            return None
        changed = self.pattern.replace(name, _literal_references(self.replacement, self.pattern.groups))
        return with_case(changed, self.case)


class MappingRules:
    """The rules of a broker, in their order."""

    def __init__(self, rules: list[MappingRule]) -> None:
        self._rules = rules

    def apply(self, name: str) -> str:
        """The name of the principal. Raises `NoMatchingRule`, and `ReplacementError` for a wrong replacement."""
        for rule in self._rules:
            found = rule.apply(name)
            if found is not None:
                return found
        raise NoMatchingRule("none of ssl.principal.mapping.rules applies")


def parse_mapping_rules(text: str) -> MappingRules:
    """The rules of a property's text. Raises `ValueError` with one line for a wrong or unsupported rule."""
    rules = []
    for found in _splitter().find_all(text.strip(_TRIMMED)):
        rule = found[1]
        match = _parser().match_start(rule)
        if match is None or match.end() != len(rule):
            raise ValueError(f"wrong rule: {rule!r}")
        if match[1] is not None:
            rules.append(MappingRule(None))
        elif match[2] is not None:
            rules.append(MappingRule(JavaPattern(match[2]), match[4], match[6] or ""))
    return MappingRules(rules)


@cache
def _splitter() -> JavaPattern:
    return JavaPattern(rf"\s*({_RULE})\s*(,\s*|$)")


@cache
def _parser() -> JavaPattern:
    return JavaPattern(_RULE)


def _literal_references(replacement: str, groups: int) -> str:
    """A replacement in which references to groups that do not exist are escaped. As in Kafka, a second such reference
    is escaped at its original position, although the first escape has moved it."""
    changed = replacement
    for reference in _REFERENCE.finditer(replacement) if groups else ():
        if reference[1].startswith("0"):
            continue
        number = int(reference[1])
        if number > _INT_MAX:
            raise ReplacementError("a replacement names a group with a number that is too large")
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            changed = changed[: reference.start()] + "\\" + changed[reference.start() :]
    return changed
