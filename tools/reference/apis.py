"""The page of APIs: the versions of each beside Apache Kafka's, and what its handler's docstring says."""

from __future__ import annotations

import ast
import re
from typing import Final

from harness.paths import ROOT
from kwire.handlers.index import INDEX
from tools.compat_table import Ranges, api_name, kwire_ranges, written
from tools.reference.markdown import page, table

_TITLE: Final = re.compile(r"^\w[^:]*\(API keys? [^)]*\):\s*", re.S)
_OUTSIDE_CODE: Final = re.compile(r"(`+[^`]+`+)")


def apis() -> str:
    """The page."""
    kafka, kwire = written("Kafka 4.3"), kwire_ranges()
    served = [key for key in sorted(INDEX) if _docstring(key)]
    return page(
        "APIs",
        "The requests of Kafka's protocol that kwire serves, with the versions that ApiVersions returns beside those "
        "of Apache Kafka 4.3. A request without versions here is served where another broker or a feature needs it, "
        "and is not advertised. Others are refused with `UNSUPPORTED_VERSION`. [COMPAT.md](../../COMPAT.md) lists the "
        "known differences.",
        table(("key", "API", "Apache Kafka 4.3", "kwire"), (_row(key, kafka, kwire) for key in served)),
        *(f"## {api_name(key)}\n\n{_text(key)}" for key in served),
    )


def _row(key: int, kafka: Ranges, kwire: Ranges) -> list[str]:
    name = api_name(key)
    return [str(key), f"[{name}](#{name.lower()})", _span(kafka.get(key)), _span(kwire.get(key))]


def _span(versions: tuple[int, int] | None) -> str:
    return "-" if versions is None else f"{versions[0]} to {versions[1]}"


def _docstring(key: int) -> str:
    """What the module of an API says about it."""
    path = ROOT / "kwire" / "handlers" / f"{INDEX[key].module.replace('.', '/')}.py"
    if not path.exists():
        path = path.with_suffix("") / "__init__.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _text(key: int) -> str:
    """The docstring as Markdown, without the API's name, which the heading has."""
    text = _TITLE.sub("", _docstring(key), count=1)
    pieces = _OUTSIDE_CODE.split(text[:1].upper() + text[1:])
    return "".join(each if each.startswith("`") else each.replace("<", "\\<").replace("*", "\\*") for each in pieces)
