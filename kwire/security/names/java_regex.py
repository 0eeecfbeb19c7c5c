"""Java's regular expressions, by translation into Python's.

Rules that map names have Java's syntax and meaning, which differ from Python's in many details: what ``.`` and ``$``
match, ASCII only in ``\\w`` and ``(?i)``, named groups, quotes ``\\Q...\\E``, replacements with ``$1``. The translator
parses a pattern by Java's grammar and writes a Python pattern of the same meaning. What it cannot translate exactly is
refused by name (`UnsupportedPattern`): nested and intersected character classes, Unicode properties, flags other than
``i`` and ``s``, ``\\G``, ``\\X``, ``\\N``, quantified assertions, repeated groups that may be empty or have groups in
them, possessive groups that capture, look-behind of varying length. ``\\b`` is that of Java 19 and later (ASCII letters
and digits are words).

As in Java, matching may take time that is exponential in the length of the text. The operator writes the patterns, and
the texts are names that a trusted authority has signed.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

NEWLINES: Final = "\\n\\r\\x85\\u2028\\u2029"
_DOT: Final = f"[^{NEWLINES}]"
_END: Final = "(?=(?:\\r\\n|(?<!\\r)\\n|[\\r\\x85\\u2028\\u2029])?\\Z)"
"""``$`` and ``\\Z``: the end of the text, or before a final line end."""
_LINE_END: Final = "(?:\\r\\n|[\\n-\\r\\x85\\u2028\\u2029])"
_MAX: Final = 0x10FFFF

Ranges = list[tuple[int, int]]

_HORIZONTAL: Final[Ranges] = [
    (9, 9), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200A), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000),
]  # fmt: skip
_VERTICAL: Final[Ranges] = [(10, 13), (0x85, 0x85), (0x2028, 0x2029)]
_LOWER, _UPPER, _DIGIT = (97, 122), (65, 90), (48, 57)
_PUNCTUATION: Final[Ranges] = [(33, 47), (58, 64), (91, 96), (123, 126)]
_PROPERTIES: Final[dict[str, Ranges]] = {
    "Lower": [_LOWER],
    "Upper": [_UPPER],
    "ASCII": [(0, 127)],
    "Alpha": [_UPPER, _LOWER],
    "Digit": [_DIGIT],
    "Alnum": [_DIGIT, _UPPER, _LOWER],
    "Punct": _PUNCTUATION,
    "Graph": [(33, 126)],
    "Print": [(32, 126)],
    "Blank": [(9, 9), (32, 32)],
    "Cntrl": [(0, 31), (127, 127)],
    "XDigit": [_DIGIT, (65, 70), (97, 102)],
    "Space": [(9, 13), (32, 32)],
}
_CLASSES: Final[dict[str, Ranges]] = {
    "d": [_DIGIT],
    "w": [_DIGIT, _UPPER, (95, 95), _LOWER],
    "s": [(9, 13), (32, 32)],
    "h": _HORIZONTAL,
    "v": _VERTICAL,
}
_CONTROLS: Final = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}
_ASSERTIONS: Final = {"A": "\\A", "b": "\\b", "B": "\\B", "z": "\\Z", "Z": _END}
_LOOKS: Final = {"=": "(?=", "!": "(?!", "<=": "(?<=", "<!": "(?<!"}
_QUANTIFIERS: Final = "?*+"
_COUNT_MAX: Final = 2**31 - 1


class PatternError(ValueError):
    """A pattern that Java refuses. The text is one line and names the position."""


class UnsupportedPattern(PatternError):
    """A pattern that Java accepts, but that is not translated. The text is one line and names what is not supported."""


class ReplacementError(ValueError):
    """A replacement that refers to a missing group, or ends too early. As in Java, raised once the pattern has
    matched."""


class JavaPattern:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        translator = _Translator(_unquoted(pattern))
        try:
            self._compiled = re.compile(translator.translate(), re.ASCII)
        except (re.error, OverflowError, RecursionError) as error:
            raise UnsupportedPattern(f"the regular expression is not supported: {error}") from None

    @property
    def groups(self) -> int:
        """The number of capturing groups."""
        return self._compiled.groups

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text (``Matcher.matches``)."""
        return self._compiled.fullmatch(text) is not None

    def match_start(self, text: str) -> re.Match[str] | None:
        """Its match at the start of a text (``Matcher.lookingAt``)."""
        return self._compiled.match(text)

    def find_all(self, text: str) -> list[re.Match[str]]:
        """Its matches, one after the other (``Matcher.find``). As in Java, there is at most one match at a place, the
        empty one if that is the first."""
        found, start = [], 0
        while start <= len(text) and (match := self._compiled.search(text, start)) is not None:
            found.append(match)
            start = match.end() + (match.end() == match.start())
        return found

    def replace(self, text: str, replacement: str, *, first: bool = False) -> str:
        """Replace all matches or the first one (``replaceAll``, ``replaceFirst``). Raises `ReplacementError`."""
        pieces, end = [], 0
        for match in self.find_all(text)[: 1 if first else None]:
            pieces += [text[end : match.start()], _expand(match, replacement)]
            end = match.end()
        return "".join(pieces) + text[end:]


def _expand(match: re.Match[str], replacement: str) -> str:
    """A replacement for a match: ``\\x`` is x, ``$1`` and ``${name}`` are groups, as many digits as make one."""
    found, index = [], 0
    while index < len(replacement):
        character = replacement[index]
        index += 1
        if character == "\\":
            if index == len(replacement):
                raise ReplacementError("a replacement ends with a backslash")
            found.append(replacement[index])
            index += 1
        elif character == "$":
            group, index = _group_reference(match, replacement, index)
            found.append(match[group] or "")
        else:
            found.append(character)
    return "".join(found)


def _group_reference(match: re.Match[str], replacement: str, index: int) -> tuple[int, int]:
    """The group that is named after a dollar sign, and the index after it."""
    named = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(replacement, index)
    if named is not None and named[1] in match.re.groupindex:
        return match.re.groupindex[named[1]], named.end()
    if not _is_digit(replacement[index : index + 1]):
        raise ReplacementError("a replacement has a dollar sign without the number or name of a group")
    group = int(replacement[index])
    index += 1
    while _is_digit(replacement[index : index + 1]) and group * 10 + int(replacement[index]) <= match.re.groups:
        group = group * 10 + int(replacement[index])
        index += 1
    if group > match.re.groups:
        raise ReplacementError(f"a replacement names group {group}, but there are {match.re.groups}")
    return group, index


def _unquoted(pattern: str) -> str:
    """A pattern with single escapes in place of ``\\Q...\\E``."""
    found, index = [], 0
    while index < len(pattern):
        if pattern[index] != "\\":
            found.append(pattern[index])
            index += 1
        elif not pattern.startswith("\\Q", index):
            found.append(pattern[index : index + 2])
            index += 2
        else:
            end = pattern.find("\\E", index + 2)
            end = len(pattern) if end < 0 else end
            found += [_quoted(character) for character in pattern[index + 2 : end]]
            index = end + 2
    return "".join(found)


def _quoted(character: str) -> str:
    """A literal character in Java's syntax."""
    if character.isascii() and character.isdigit():
        return f"\\x3{character}"
    return "\\" + character if character.isascii() and not character.isalpha() else character


def _is_digit(character: str) -> bool:
    return character != "" and character in "0123456789"


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _literal(code: int) -> str:
    """A character for a Python pattern, within a class or outside."""
    if chr(code).isascii() and chr(code).isalnum():
        return chr(code)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _set(ranges: Ranges) -> str:
    """The inside of a class for a Python pattern."""
    return "".join(_literal(low) if low == high else f"{_literal(low)}-{_literal(high)}" for low, high in ranges)


def _complement(ranges: Ranges) -> Ranges:
    found, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return [*found, (start, _MAX)] if start <= _MAX else found


class _Piece(NamedTuple):
    """A piece of a Python pattern."""

    text: str
    empty: bool
    """Whether it may match nothing."""
    captures: bool = False
    """Whether there is a capturing group in it."""
    assertion: bool = False
    nested: bool = False
    """Whether it is a group with a capturing group in it."""

    def __str__(self) -> str:
        return self.text


class _Translator:
    """Recursive descent through Java's grammar."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._index = 0
        self._groups = 0
        self._names: dict[str, int] = {}
        self._ignore_case = False
        self._dot_all = False

    def translate(self) -> str:
        """The whole pattern."""
        translated = self._alternatives()
        if self._index < len(self._pattern):
            raise self._error("a closing parenthesis too many")
        return translated.text

    # -- reading

    def _peek(self, ahead: int = 0) -> str:
        """A character of the pattern; empty after its end."""
        return self._pattern[self._index + ahead : self._index + ahead + 1]

    def _take(self) -> str:
        character = self._peek()
        self._index += 1
        return character

    def _skip(self, text: str) -> bool:
        """Skip a text if it is next."""
        if not self._pattern.startswith(text, self._index):
            return False
        self._index += len(text)
        return True

    def _error(self, what: str) -> PatternError:
        return PatternError(f"the regular expression has {what} near character {self._index + 1}")

    def _unsupported(self, what: str) -> PatternError:
        return UnsupportedPattern(f"the regular expression has {what} near character {self._index + 1}: not supported")

    # -- sequences and groups

    def _alternatives(self) -> _Piece:
        found = [self._sequence()]
        while self._skip("|"):
            found.append(self._sequence())
        text = "|".join(map(str, found))
        return _Piece(text, any(each.empty for each in found), any(each.captures for each in found))

    def _sequence(self) -> _Piece:
        found = []
        while (character := self._peek()) not in ("", "|", ")"):
            if character in _QUANTIFIERS:
                raise self._error("a quantifier of nothing")
            if character == "{":
                if _is_digit(self._peek(1)):
                    raise self._unsupported("a count of nothing")
                raise self._error("an opening brace")
            found.append(self._element())
        text = "".join(map(str, found))
        return _Piece(text, all(each.empty for each in found), any(each.captures for each in found))

    def _element(self) -> _Piece:
        """One element with its quantifier."""
        piece = self._group() if self._peek() == "(" else self._atom()
        if not piece.text:
            return piece
        quantifier = self._quantifier()
        if not quantifier:
            return piece
        if piece.assertion:
            raise self._unsupported("a quantified assertion")
        if piece.captures and quantifier[1:].endswith("+"):
            raise self._unsupported("a possessive group")
        if piece.empty and quantifier[0] != "?":
            raise self._unsupported("a repeated group that may be empty")
        if piece.nested and quantifier[0] != "?":
            raise self._unsupported("a repeated group with a group in it")  # Java may keep the wrong iteration's text
        may_be_none = quantifier[0] in "?*" or quantifier.startswith("{0")
        return _Piece(piece.text + quantifier, piece.empty or may_be_none, piece.captures)

    def _group(self) -> _Piece:
        """A group; no text for flags alone."""
        self._index += 1
        flags = self._ignore_case, self._dot_all
        opening, assertion = "(", False
        if self._skip("?"):
            opening, assertion = self._special_group()
            if not opening:
                return _Piece("", True)
        else:
            self._groups += 1
        body = self._alternatives()
        if not self._skip(")"):
            raise self._error("a group without an end")
        self._ignore_case, self._dot_all = flags
        captures = body.captures or opening == "(" or opening.startswith("(?P<")
        return _Piece(f"{opening}{body})", assertion or body.empty, captures, assertion, body.captures)

    def _special_group(self) -> tuple[str, bool]:
        for look, opening in _LOOKS.items():
            if self._skip(look):
                return opening, True
        if self._skip(">"):
            return "(?>", False
        if self._skip("<"):
            name = self._name()
            if name in self._names:
                raise self._error("two groups of one name")
            self._groups += 1
            self._names[name] = self._groups
            return f"(?P<{name}>", False
        return self._flags()

    def _name(self) -> str:
        """The name of a group, with the bracket after it."""
        match = re.compile(r"([a-zA-Z][a-zA-Z0-9]*)>").match(self._pattern, self._index)
        if match is None:
            raise self._error("a wrong name of a group")
        self._index = match.end()
        return match[1]

    def _flags(self) -> tuple[str, bool]:
        """Flags of the rest of the enclosing group (``(?i)``) or of a group of their own (``(?i:``)."""
        enable = True
        while (character := self._take()) not in (")", ":"):
            if character == "-" and enable:
                enable = False
            elif character == "i":
                self._ignore_case = enable
            elif character == "s":
                self._dot_all = enable
            elif character and character in "mxduUc":
                raise self._unsupported(f"the flag {character}")
            else:
                raise self._error("an unknown kind of group")
        return ("(?:" if character == ":" else ""), False

    def _quantifier(self) -> str:
        character = self._peek()
        if character and character in _QUANTIFIERS:
            self._index += 1
            quantifier = character
        elif character == "{":
            quantifier = self._count()
        else:
            return ""
        if (suffix := self._peek()) and suffix in "?+":
            self._index += 1
            quantifier += suffix
        return quantifier

    def _count(self) -> str:
        match = re.compile(r"\{([0-9]+)(,([0-9]*))?\}").match(self._pattern, self._index)
        if match is None:
            raise self._error("an opening brace")
        low, high = int(match[1]), int(match[3]) if match[3] else None
        if low > _COUNT_MAX or (high is not None and not low <= high <= _COUNT_MAX):
            raise self._error("a wrong count")
        self._index = match.end()
        return match[0]

    # -- atoms

    def _atom(self) -> _Piece:
        """A character, class, reference or assertion."""
        character = self._take()
        if character == "[":
            return self._cased(self._class())
        if character == ".":
            return _Piece("(?s:.)" if self._dot_all else _DOT, False)
        if character == "^":
            return _Piece("\\A", True, assertion=True)
        if character == "$":
            return _Piece(_END, True, assertion=True)
        if character != "\\":
            return self._cased(_literal(ord(character)))
        return self._escape()

    def _cased(self, text: str, *, empty: bool = False) -> _Piece:
        return _Piece(f"(?i:{text})" if self._ignore_case else text, empty)

    def _escape(self) -> _Piece:
        """What a backslash outside of a class stands for."""
        character = self._peek()
        if character and character in _ASSERTIONS:
            self._index += 1
            if character == "b" and self._peek() == "{":
                raise self._unsupported("\\b{g}")
            return _Piece(_ASSERTIONS[character], True, assertion=True)
        if character and character in "123456789":
            return self._cased(self._reference(), empty=True)
        if character == "k":
            self._index += 1
            if not self._skip("<") or (name := self._name()) not in self._names:
                raise self._error("a reference to no group")
            return self._cased(f"(?P={name})", empty=True)
        if character == "R":
            self._index += 1
            return _Piece(_LINE_END, False)
        ranges = self._escaped_class()
        return self._cased(_literal(self._escaped_character()) if ranges is None else f"[{_set(ranges)}]")

    def _reference(self) -> str:
        """A reference to a group by number: as many digits as make a group that has been opened."""
        number = int(self._take())
        while _is_digit(self._peek()) and number * 10 + int(self._peek()) <= self._groups:
            number = number * 10 + int(self._take())
        return f"(?:\\{number})"

    def _escaped_class(self) -> Ranges | None:
        """The class that an escape stands for, which is consumed; None if it stands for none."""
        character = self._peek()
        if character and character in "pP":
            self._index += 1
            ranges = self._property()
            return ranges if character == "p" else _complement(ranges)
        if character.lower() not in _CLASSES:
            return None
        self._index += 1
        ranges = _CLASSES[character.lower()]
        return ranges if character.islower() else _complement(ranges)

    def _property(self) -> Ranges:
        match = re.compile(r"\{(\w+)\}").match(self._pattern, self._index)
        if match is None or match[1] not in _PROPERTIES:
            raise self._unsupported("a Unicode property")
        self._index = match.end()
        return _PROPERTIES[match[1]]

    def _escaped_character(self) -> int:
        """The character that an escape stands for."""
        character = self._take()
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "0":
            return self._digits(r"[0-3][0-7]{2}|[0-7]{1,2}", 8)
        if character == "x":
            return self._digits(r"[0-9a-fA-F]{2}|\{[0-9a-fA-F]+\}", 16)
        if character == "u":
            return self._unicode()
        if character == "c" and self._peek():
            return ord(self._take()) ^ 64
        if character and character in "GXN":
            raise self._unsupported(f"\\{character}")
        if character == "" or _is_letter(character) or _is_digit(character):
            raise self._error("an unknown escape")
        return ord(character)

    def _digits(self, form: str, base: int) -> int:
        match = re.compile(form).match(self._pattern, self._index)
        if match is None:
            raise self._error("a wrong escape")
        self._index = match.end()
        code = int(match[0].strip("{}"), base)
        if code > _MAX:
            raise self._error("a character that cannot be")
        return code

    def _unicode(self) -> int:
        code = self._digits("[0-9a-fA-F]{4}", 16)
        if 0xD800 <= code < 0xE000:
            raise self._unsupported("half of a character")
        return code

    # -- classes

    def _class(self) -> str:
        """A class; its opening bracket is consumed already."""
        negated = self._skip("^")
        found: Ranges = []
        while (character := self._peek()) != "]" or not found:
            if character == "":
                raise self._error("a class without an end")
            if character == "[":
                raise self._unsupported("a class within a class")
            if character == "&" and self._peek(1) == "&":
                raise self._unsupported("an intersection of classes")
            found += self._class_item()
        self._index += 1
        return f"[{'^' if negated else ''}{_set(found)}]"

    def _class_item(self) -> Ranges:
        """A character, a range or a predefined class."""
        if self._skip("\\"):
            ranges = self._escaped_class()
            if ranges is not None:
                if self._peek() == "-" and self._pattern[self._index - 1] == "v":
                    raise self._unsupported("a range from \\v")
                return ranges
            low = self._escaped_character()
        else:
            low = ord(self._take())
        if self._peek() != "-" or self._peek(1) in ("]", ""):
            return [(low, low)]
        if self._peek(1) == "[":
            return [(low, low)]
        self._index += 1
        high = self._range_end()
        if high < low:
            raise self._error("a range that goes down")
        return [(low, high)]

    def _range_end(self) -> int:
        if not self._skip("\\"):
            return ord(self._take())
        if self._peek().lower() in {*_CLASSES, "p"}:
            raise self._error("a range to a class")
        return self._escaped_character()
