"""Backslash sequences in options: ``\\n``, ``\\t``, ``\\r``, ``\\0``, ``\\\\``, ``\\xHH``."""

from __future__ import annotations

import re
from typing import Final

_NAMED: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_SEQUENCE: Final = re.compile(r"\\(x[0-9A-Fa-f]{2}|.?)", re.DOTALL)


def unescaped(text: str) -> bytes:
    """The bytes that a text with backslash sequences means. ValueError for a sequence that does not exist."""
    parts: list[bytes] = []
    position = 0
    for match in _SEQUENCE.finditer(text):
        parts.append(_bytes(text[position : match.start()]))
        name = match[1]
        if len(name) == 3:
            parts.append(bytes.fromhex(name[1:]))
        elif name in _NAMED:
            parts.append(_NAMED[name])
        else:
            raise ValueError(f"\\{name} is none of \\n, \\t, \\r, \\0, \\\\ and \\xHH")
        position = match.end()
    parts.append(_bytes(text[position:]))
    return b"".join(parts)


def _bytes(text: str) -> bytes:
    """What was on the command line, whether UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")
