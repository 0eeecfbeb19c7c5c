"""Write `kwire/handlers/index.py` from the declarations of all handlers.

    .venv/bin/python -m tools.handler_index            rewrites it
    .venv/bin/python -m tools.handler_index --check    changes nothing; the exit status is 1 if it is out of date

A handler module is one with an `Api` called ``API``, anywhere in the sub-packages of `kwire.handlers`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from harness.paths import ROOT
from kwire import handlers
from kwire.handlers.api import Api

INDEX = ROOT / "kwire" / "handlers" / "index.py"

HEAD = '''"""Which module handles which API, and what must be known of each before its first request.

Generated from the handlers' declarations by `python -m tools.handler_index`: do not edit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.codec.protocol import ApiKey


class Entry(NamedTuple):
    """What `kwire.handlers.<module>` declares: the versions in ApiVersions (None: not in it), and whether the next
    request of a connection may start while one is pending."""

    module: str
    advertised: tuple[int, int] | None
    pipelined: bool = False


INDEX: Final[dict[int, Entry]] = {
'''


def declared() -> Iterator[tuple[str, Api]]:
    """Every handler module, without ``kwire.handlers.``, and what it declares."""
    prefix = f"{handlers.__name__}."
    for module in walk_packages(handlers.__path__, prefix):
        name = module.name.removeprefix(prefix)
        if "." in name and not module.ispkg:  # the modules beside the packages are helpers
            api = getattr(import_module(module.name), "API", None)
            if isinstance(api, Api):
                yield name, api


def render() -> str:
    """The text of the index, in the order of the keys."""
    rows = []
    for name, api in sorted(declared(), key=lambda each: each[1].key):
        pipelined = ", pipelined=True" if api.pipelined else ""
        rows.append(f'    ApiKey.{api.key.name}: Entry("{name}", {api.advertised}{pipelined}),\n')
    return HEAD + "".join(rows) + "}\n"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write kwire/handlers/index.py.")
    parser.add_argument("--check", action="store_true", help="only compare")
    if parser.parse_args().check:
        return 0 if INDEX.read_text() == render() else 1
    INDEX.write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
