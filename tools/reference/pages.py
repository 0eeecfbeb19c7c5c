"""The pages that are written from the code alone."""

from __future__ import annotations

from typing import Final

from harness.paths import ROOT
from tools.reference.apis import apis
from tools.reference.commands import commands
from tools.reference.properties import broker_properties, other_properties

FOLDER: Final = ROOT / "docs" / "reference"


def written_from_code() -> dict[str, str]:
    """The text of each page, by the name of its file."""
    return {
        "BROKER_PROPERTIES.md": broker_properties(),
        "OTHER_PROPERTIES.md": other_properties(),
        "APIS.md": apis(),
        "COMMANDS.md": commands(),
    }


def stale() -> list[str]:
    """The pages that are not as the code would have them."""
    return [
        name
        for name, text in written_from_code().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != text
    ]
