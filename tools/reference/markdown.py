"""Markdown: cells, tables, and the note that a page is generated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTE = "<!-- Written by `python -m tools.reference`; do not edit. -->"


def page(title: str, *parts: str) -> str:
    """A page: its title, and paragraphs, tables and sections with an empty line between them."""
    return "\n\n".join([NOTE, f"# {title}", *parts]) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown already."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def code(text: str) -> str:
    """Text as code, in a cell as well."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def prose(text: str) -> str:
    """Text of the program as Markdown: what would be markup is shown as it is."""
    for mark in ("\\", "|", "*", "<", "[", "_"):
        text = text.replace(mark, f"\\{mark}")
    return text


def fenced(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```"
