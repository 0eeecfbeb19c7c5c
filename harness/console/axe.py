"""axe-core, which finds faults of accessibility in a page: its package from npm, in the cache."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.downloads import downloaded, untar
from harness.kafka_jars import cache_root

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION: Final = "4.14.1"
_RUN: Final = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"


def why_no_axe() -> str | None:
    """What is missing, by name; None if axe-core is there or can be fetched."""
    return None if _folder().exists() or shutil.which("npm") else "needs npm, for axe-core"


def _folder() -> Path:
    return cache_root() / f"axe-core-{VERSION}"


def _script() -> str:
    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as name:
                downloaded("axe-core", ["npm", "pack", f"axe-core@{VERSION}"], cwd=Path(name))
                [archive] = Path(name).glob("*.tgz")
                untar(archive, Path(name) / "content")
                (Path(name) / "content").rename(folder)
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


def serious_faults(page: Page) -> list[str]:
    """What axe calls serious or critical, each with the elements it is about."""
    page.evaluate(_script())
    found: list[Any] = page.evaluate(_RUN)
    return [
        f"{each['id']}: {', '.join(str(node['target']) for node in each['nodes'])}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
