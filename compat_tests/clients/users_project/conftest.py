"""The sdist and the wheel of the sources as they are, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release.recipe import build


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"))
