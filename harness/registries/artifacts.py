"""Single files of Maven Central in the cache: applications and jars that hold all they need.

What lives elsewhere: jars with all that they depend on (`harness.kafka_jars`).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.downloads import CommandFailed, downloaded, untar
from harness.kafka_jars import JarsUnavailable, cache_root, locked

_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def artifacts(name: str, what: str, wanted: Sequence[str]) -> Path:
    """The folder ``name`` of the cache with artefacts, fetched on first use, without what they depend on; an
    archive is unpacked. ``wanted``: GROUP:ARTIFACT:VERSION:TYPE:CLASSIFIER each. `JarsUnavailable`."""
    folder = cache_root() / name
    with locked(name):
        if folder.exists():
            return folder
        if shutil.which("mvn") is None:
            raise JarsUnavailable("needs mvn (Maven) on PATH, not found")
        with tempfile.TemporaryDirectory(dir=folder.parent) as home:
            scratch = Path(home) / "content"
            for each in wanted:
                _fetch(what, each, scratch)
            scratch.rename(folder)
    return folder


def _fetch(what: str, artifact: str, folder: Path) -> None:
    command = ["mvn", "-q", "-B", "-C", _GOAL, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    try:
        with locked("maven"):  # two processes must not write to Maven's own repository at once
            downloaded(what, command)
    except CommandFailed as error:
        raise JarsUnavailable(f"Maven could not fetch {what}: {' '.join(str(error).split())[:300]}") from None
    for archive in folder.glob("*.tar.gz"):
        untar(archive, folder)
        archive.unlink()
