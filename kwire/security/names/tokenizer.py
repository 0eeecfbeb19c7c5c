"""Tokens as Java's `StreamTokenizer` finds them: words, numbers, quoted texts with escapes, comments.

Kafka reads the JAAS texts in properties with it, and Java reads JAAS files, each with its own syntax table (`jaas.py`).
All of its rules are implemented, also the surprising ones, since a text that works with Apache Kafka must have the same
meaning: a slash always starts a comment (``//``, ``/*`` or alone, up to the end of the line), a quoted text
ends at the end of its line, and ``\\101`` is an octal escape. Ends of lines are white space.
"""

from __future__ import annotations

from typing import Final, NamedTuple

WHITESPACE: Final = 1
DIGIT: Final = 2
WORD: Final = 4
QUOTE: Final = 8
COMMENT: Final = 16

END: Final = ""
"""The kind of the token after the last one."""
TEXT: Final = "word"
"""The kind of a word; a quoted text's kind is its quote."""
NUMBER: Final = "number"

_END = -1
_NEWLINES = (10, 13, _END)
_ESCAPES: Final = {ord(letter): value for letter, value in zip("abfnrtv", (7, 8, 12, 10, 13, 9, 11), strict=True)}
_UNFINISHED_ESCAPE: Final = 0xFFFF
"""Java's value for a backslash at the end of the text."""


class Token(NamedTuple):
    """One token. ``kind`` is END, TEXT, NUMBER, a quote (of a quoted text), or the character that stands alone;
    ``value`` the text of a word or quoted text; ``place`` the index of its first character, from 1."""

    kind: str
    value: str | None
    place: int

    def __repr__(self) -> str:
        return f"Token(place={self.place})"


class Syntax:
    """What each character means. Those from 256 on are letters of words."""

    def __init__(self, kinds: dict[int, int]) -> None:
        self._kinds = bytes(kinds.get(code, 0) for code in range(256))

    def of(self, code: int) -> int:
        """The bits of a character; those of white space at the end of the text."""
        if code < 0:
            return WHITESPACE
        return self._kinds[code] if code < 256 else WORD


class Tokenizer:
    """Reads a text token by token."""

    def __init__(self, text: str, syntax: Syntax) -> None:
        self._codes = [ord(character) for character in text]
        self._syntax = syntax
        self._index = 0

    def __repr__(self) -> str:
        return f"Tokenizer(index={self._index})"

    def next(self) -> Token:
        """The next token; END again and again after the last one."""
        while True:
            while self._index < len(self._codes) and self._syntax.of(self._peek()) & WHITESPACE:
                self._index += 1
            code = self._peek()
            if code == _END:
                return Token(END, None, self._index + 1)
            bits = self._syntax.of(code)
            if code != ord("/") and not bits & COMMENT:
                return self._token(code, bits)
            if not self._skip_comment():
                return Token(END, None, self._index + 1)

    def _peek(self) -> int:
        return self._codes[self._index] if self._index < len(self._codes) else _END

    def _read(self) -> int:
        """The next character, which is consumed; _END after the last one."""
        code = self._peek()
        self._index += code != _END
        return code

    def _token(self, code: int, bits: int) -> Token:
        start = self._index
        if bits & DIGIT:
            return self._number(start)
        if bits & WORD:
            while self._syntax.of(self._peek()) & (WORD | DIGIT):
                self._index += 1
            return Token(TEXT, "".join(map(chr, self._codes[start : self._index])), start + 1)
        self._index += 1
        if bits & QUOTE:
            return Token(chr(code), self._quoted(code), start + 1)
        return Token(chr(code), None, start + 1)

    def _number(self, start: int) -> Token:
        """A number; its value is not used. A minus alone is a token of its own."""
        if self._peek() == ord("-"):
            self._index += 1
            if not _starts_number(self._peek()):
                return Token("-", None, start + 1)
        dots = 0
        while _starts_number(self._peek()) and dots + (self._peek() == ord(".")) <= 1:
            dots += self._peek() == ord(".")
            self._index += 1
        return Token(NUMBER, None, start + 1)

    def _quoted(self, quote: int) -> str:
        """The text up to the quote, which is consumed, or to the end of the line."""
        found: list[str] = []
        while (code := self._peek()) not in _NEWLINES:
            self._index += 1
            if code == quote:
                break
            found.append(self._escape() if code == ord("\\") else chr(code))
        return "".join(found)

    def _escape(self) -> str:
        """The character that an escape stands for; its backslash is consumed already."""
        code = self._read()
        if not _is_octal(code):
            return chr(_UNFINISHED_ESCAPE if code == _END else _ESCAPES.get(code, code))
        value, digits = code - ord("0"), 3 if code <= ord("3") else 2
        for _ in range(digits - 1):
            if not _is_octal(self._peek()):
                break
            value = value * 8 + self._read() - ord("0")
        return chr(value)

    def _skip_comment(self) -> bool:
        """Skip a comment, whose slash is next; False if the text ends within ``/*``."""
        self._index += 1
        if self._read() == ord("*"):  # any other character is part of the comment, also the end of a line
            return self._skip_block()
        while self._peek() not in _NEWLINES:
            self._index += 1
        return True

    def _skip_block(self) -> bool:
        """Skip to the end of a comment. As in Java, the first character of a line does not end it."""
        previous = 0
        while (code := self._read()) != ord("/") or previous != ord("*"):
            if code == ord("\r"):
                code = self._read()
                if code == ord("\n"):
                    code = self._read()
            elif code == ord("\n"):
                code = self._read()
            if code == _END:
                return False
            previous = code
        return True


def _starts_number(code: int) -> bool:
    return code == ord(".") or ord("0") <= code <= ord("9")


def _is_octal(code: int) -> bool:
    return ord("0") <= code <= ord("7")
