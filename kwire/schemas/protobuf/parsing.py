"""Text to a tree. The library goes on after errors of syntax by itself; here the first one ends it."""

from __future__ import annotations

import re
from typing import Any, Final

from kwire.base.extras import needed
from kwire.schemas.errors import SchemaError
from kwire.schemas.limits import DEPTH_MAX, PROTOBUF_CHARACTERS_MAX, bounded, check_size

_BRACES: Final = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[{}<>\[\]()]", re.DOTALL)


@bounded
def parse_tree(text: str) -> Any:
    """The tree (``proto_schema_parser.ast.File``) of a text. `SchemaError`."""
    check_size(text, PROTOBUF_CHARACTERS_MAX)
    _check_depth(text)
    try:
        from antlr4.error.ErrorListener import ErrorListener
        from proto_schema_parser.parser import Parser
    except ImportError:
        raise SchemaError(needed("registry")) from None

    class Refusing(ErrorListener):  # type: ignore[misc] # the library has no annotations
        def syntaxError(self, recognizer: Any, symbol: Any, line: int, column: int, message: str, error: Any) -> None:
            raise SchemaError(f"line {line}, column {column + 1}: {message[:200]}")

    def set_up(part: Any) -> None:
        part.removeErrorListeners()
        part.addErrorListener(Refusing())

    try:
        return Parser(setup_lexer=set_up, setup_parser=set_up).parse(text)
    except (SchemaError, RecursionError):
        raise
    except Exception as error:  # the library meets None where a tree has a hole
        raise SchemaError(f"the text is no Protobuf file ({type(error).__name__})") from None


def _check_depth(text: str) -> None:
    """`SchemaError` for braces nested too deeply; those in texts and comments do not count."""
    depth = 0
    for found in _BRACES.finditer(text):
        if found[0] in "{[(<":
            depth += 1
        elif found[0] in "}])>":
            depth -= 1
        if depth > DEPTH_MAX:
            raise SchemaError(f"messages are nested more than {DEPTH_MAX} levels deep")
