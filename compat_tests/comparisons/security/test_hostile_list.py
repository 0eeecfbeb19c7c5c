"""The list of attacks names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def test_the_tests_of_the_list_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (HERE / "README.md").read_text())
    assert len(named) > 30
    for path, name in named:
        file = ROOT / path if "/" in path else HERE / path
        assert re.search(rf"^(async )?def {name}\(", file.read_text(), re.MULTILINE), f"{path}::{name}"
