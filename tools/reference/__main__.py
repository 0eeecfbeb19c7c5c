"""Write the pages of `docs/reference` from the code.

    .venv/bin/python -m tools.reference            rewrites them
    .venv/bin/python -m tools.reference --check    changes nothing; the exit status is 1 if one is out of date
    .venv/bin/python -m tools.reference --run      also the page of metrics, from a running broker

`tests/test_structure.py` checks the pages that need no broker, that of metrics is
checked by `compat_tests/documents/test_documents.py`.
"""

from __future__ import annotations

import argparse
import sys

from tools.reference.pages import FOLDER, stale, written_from_code


def main() -> int:
    """The command line; with --check, 1 if a page is out of date."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--run", action="store_true", help="also the page that a running broker tells")
    arguments = parser.parse_args()
    if arguments.check:
        found = stale()
        print("".join(f"{name}: run python -m tools.reference\n" for name in found), end="", file=sys.stderr)
        return int(bool(found))
    pages = written_from_code()
    if arguments.run:
        from tools.reference.running import written_from_a_broker

        pages |= written_from_a_broker()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
