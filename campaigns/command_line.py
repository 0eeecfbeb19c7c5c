"""The parser of a campaign's command line: ``python -m campaigns.NAME``, the module's docstring as its help."""

from __future__ import annotations

import argparse


def campaign_parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser without options for the campaign `campaigns.NAME`. Parsing comes first: `--help` starts nothing."""
    return argparse.ArgumentParser(
        prog=f"python -m campaigns.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
