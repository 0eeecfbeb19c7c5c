"""A growing Python source text and the names it refers to: both code generators write into one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Packer
from typing import Any


class Source:
    """Lines of one generated function. Names that it uses are in ``names``."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._lines: list[str] = []
        self._indent = 1
        self._count = 0

    def line(self, text: str) -> None:
        """Add a line at the present indentation."""
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a head such as ``if x:``; lines that follow in the ``with`` block are indented below it."""
        self.line(head)
        self._indent += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._indent -= 1

    def begin_slices(self) -> None:
        """Begin a generator whose slices have ``slice_size`` elements; it is one even if it has no arrays."""
        self.line("slice_left = slice_size")
        self.line("if 0: yield")

    def end_slice(self) -> None:
        """Count an element of an array; after ``slice_size`` of them, others get their turn."""
        self.line("slice_left -= 1")
        with self.block("if slice_left <= 0:"):
            self.line("slice_left = slice_size")
            self.line("yield")

    def fresh(self, stem: str) -> str:
        """A variable name that nothing else uses."""
        self._count += 1
        return f"{stem}{self._count}"

    def class_name(self, cls: type[Any]) -> str:
        """The name by which the generated code refers to a class."""
        self.names[cls.__name__] = cls
        return cls.__name__

    def packer(self, codes: str, method: str) -> str:
        """The name of ``pack`` or ``unpack_from`` of a precompiled big-endian `struct.Struct`."""
        name = f"{method}_{codes.replace('?', 't')}"
        if name not in self.names:
            self.names[name] = getattr(Packer(">" + codes), method)
        return name

    def compile(self, head: str, file_name: str, extra: list[str]) -> Callable[..., Any]:
        """Execute the text as the body of a function with this head."""
        text = "\n".join([head, *self._lines, *extra])
        exec(compile(text, file_name, "exec"), self.names)
        function: Callable[..., Any] = self.names["generated"]
        function.__source__ = text  # type: ignore[attr-defined]
        return function
