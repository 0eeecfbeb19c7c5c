"""The release recipe (`python -m tools.release`): what it builds, what it refuses, and the names that do not move."""

from __future__ import annotations

import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

import kwire
from tools.release import recipe
from tools.release.recipe import ReleaseError


def test_the_wheel_holds_the_package_and_nothing_else(distributions: tuple[Path, Path]) -> None:
    sdist, wheel = distributions
    recipe.check_sdist(sdist)
    recipe.check_wheel(wheel)
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert tops == {"kwire", f"kwire-{kwire.__version__}.dist-info"}


@pytest.mark.parametrize("name", ["tests/__init__.py", "kwire/__pycache__/cli.pyc"])
def test_a_wheel_with_anything_else_is_refused(distributions: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    wheel = shutil.copy(distributions[1], tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(name, "")
    with pytest.raises(ReleaseError, match=name):
        recipe.check_wheel(Path(wheel))


def test_a_wheel_without_a_module_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "kwire-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kwire/__init__.py", "")
    with pytest.raises(ReleaseError, match=r"kwire/cli/start\.py"):
        recipe.check_wheel(wheel)


def test_an_sdist_without_its_documents_is_refused(tmp_path: Path) -> None:
    sdist = tmp_path / "kwire-0.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("kwire-0/kwire/__init__.py"))
    with pytest.raises(ReleaseError, match=r"README\.md"):
        recipe.check_sdist(sdist)


@pytest.mark.timeout(900)
def test_the_public_names_are_there_and_work_from_the_wheel(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    """Broker, `kwire.testing`, the plugin, the commands, the ready line, properties, metrics and JSON output."""
    python = recipe.install(distributions[1], tmp_path / "venv")
    recipe.check_names(recipe.public_names(python, tmp_path))


def test_a_public_name_that_is_gone_is_found() -> None:
    recorded = json.loads(recipe.RECORDED.read_text())
    found = json.loads(recipe.RECORDED.read_text())
    assert recipe.gone(recorded, found) == []
    found["python"]["kwire"].remove("Broker")
    del found["json"]["verify-log"]
    assert recipe.gone(recorded, found)[0] == "python: kwire: Broker"
    with pytest.raises(ReleaseError, match="json: verify-log: findings"):
        recipe.check_names(found)


def test_a_tag_of_another_version_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"the tag is v0\.0\.1"):
        recipe.check_tag("v0.0.1")
