"""Java's regular expressions. `campaigns.security_names` compares them with Java's in rules."""

from __future__ import annotations

import pytest

from kwire.security.names.java_regex import JavaPattern, PatternError, UnsupportedPattern


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("a.c", ["abc", "a😀c"], ["a\nc", "a\rc", "a\u0085c", "a\u2028c"]),
        ("(?s)a.c", ["a\nc"], ["ac"]),
        ("\\w+", ["a_1"], ["ä", "é"]),
        ("\\d", ["1"], ["\u0661"]),
        ("\\s\\h\\v", [" \t\n", "\t\u3000\u2028"], ["\u00a0 \n"]),
        ("(?i)ab[c-e]", ["AbD"], ["abf"]),
        ("(?i)ä", ["ä"], ["Ä"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("a(?i:b)c", ["aBc"], ["aBC"]),
        ("\\Qa.b*\\E+", ["a.b*", "a.b***"], ["axb"]),
        ("\\Qa1", ["a1"], ["a"]),
        ("[\\Q]^\\E]", ["]", "^"], ["a"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[^]a]", ["b"], ["]"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[\\d.x-z]+", ["1.y"], ["a"]),
        ("[^\\D\\s]", ["1"], ["a", " "]),
        ("\\p{Alpha}\\P{Alpha}", ["a1", "aä"], ["ab", "ä1"]),
        ("\\x41\\x{1F600}\\u0042\\0103\\t\\e\\cA", ["A😀BC\t\x1b\x01"], [""]),
        ("(?<a>x)\\k<a>(y)\\2", ["xxyy"], ["xyyy"]),
        ("(a)\\10", ["aa0"], ["aa"]),
        ("a{2,3}b{2}c{1,}", ["aabbc", "aaabbcc"], ["abbc"]),
        ("a*+a", [], ["aa"]),
        ("(?>a*)b", ["aab"], ["aa"]),
        ("(?=a).(?!c).(?<=b)(?<!x)", ["ab"], ["ac"]),
        ("x\\R", ["x\r\n", "x\n", "x\u2028"], ["x"]),
        ("a}]", ["a}]"], ["a"]),
    ],
)
def test_patterns_mean_what_they_mean_in_java(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = JavaPattern(pattern)
    assert [text for text in matching if not compiled.matches(text)] == []
    assert [text for text in other if compiled.matches(text)] == []


@pytest.mark.parametrize("end", ["", "\n", "\r", "\r\n", "\u0085", "\u2028"])
def test_a_dollar_matches_before_the_last_line_end(end: str) -> None:
    assert [match.span() for match in JavaPattern("a$").find_all("a" + end)] == [(0, 1)]
    assert JavaPattern("a$").find_all("a" + end + "b") == []


def test_an_empty_match_is_the_only_one_at_its_place() -> None:
    assert JavaPattern("(.*?)").replace("ab", "-") == "-a-b-"
    assert JavaPattern("(.*)").replace("ab", "-") == "--"
    assert JavaPattern("b*").replace("abb", "-", first=True) == "-abb"


@pytest.mark.parametrize(
    "pattern",
    ["*a", "a**", "(a", "a)", "[a", "[", "[b-a]", "{", "a{x}", "a{2", "a{3,1}", "\\", "\\y", "\\k<n>", "(?<1>a)", "(?x",
     "(?~a)",
     "\\E", "\\x4", "\\08", "[a-\\d]", "a{99999999999}"],
)  # fmt: skip
def test_a_wrong_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"^[^\n]+$"):
        JavaPattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["[a[b]]", "[a&&b]", "\\p{L}", "\\pL", "(?m)a", "(?x)a", "(?u)a", "\\G", "\\X", "\\N{SPACE}", "^*", "(?=a)+",
     "(a*)*",
     "(?:a|){2}", "(a)*+", "((a)b)*", "(?:(a))+",
     "(?<=a*)b", "\\b{g}", "{2}", "\\ud83d", "[\\v-a]", "\\1(a)", "(a\\1)"],
)  # fmt: skip
def test_a_pattern_that_cannot_be_translated_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern, match=r"^the regular expression [^\n]+ supported[^\n]*$"):
        JavaPattern(pattern)
