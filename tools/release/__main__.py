"""Build what is published, check it, and try it in a fresh environment: everything but the upload.

    .venv/bin/python -m tools.release                    into dist/
    .venv/bin/python -m tools.release --tag v0.1.0       also: the tag and CHANGELOG.md name this version
    .venv/bin/python -m tools.release --record           write the public names that were found into public_names.json

A public name that was recorded and is missing fails the recipe; a new one is recorded with `--record`, in the change
that adds it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.paths import ROOT
from tools.release.recipe import ReleaseError, release


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--tag", help="the release's tag in git, v1.2.3")
    parser.add_argument("--record", action="store_true", help="record the public names that are found")
    options = parser.parse_args()
    try:
        release(options.output, options.tag, options.record)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
