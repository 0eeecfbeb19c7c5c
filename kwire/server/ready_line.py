"""The ready line: the one line that ``kwire start`` writes to standard output, when clients are served.

``kwire ready bootstrap=HOST:PORT pid=PID``; a cluster on one host lists all its addresses, separated by commas.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.base.addresses import Address, parse_address

PREFIX = "kwire ready "


class ReadyLine(NamedTuple):
    """What the ready line says. ``str()`` gives the line without its end."""

    bootstrap: str
    pid: int

    def __str__(self) -> str:
        return f"{PREFIX}bootstrap={self.bootstrap} pid={self.pid}"

    @classmethod
    def parse(cls, line: str | bytes) -> ReadyLine:
        """Read the line, with or without its end. ValueError if it is not a ready line."""
        text = line.decode(errors="replace") if isinstance(line, bytes) else line
        words = dict(word.partition("=")[::2] for word in text.removeprefix(PREFIX).split())
        if not text.startswith(PREFIX) or words.keys() != {"bootstrap", "pid"} or not words["pid"].isdecimal():
            raise ValueError(f"{text!r} is not the ready line of a broker")
        return cls(words["bootstrap"], int(words["pid"]))

    @property
    def addresses(self) -> list[Address]:
        """The address of each broker."""
        return [parse_address(text) for text in self.bootstrap.split(",")]
