"""Keeps PySpark from reading its own archive again before each task.

PySpark's Python processes are reused, and in each task they call ``importlib.invalidate_caches()``, in case files were
added to the session. For each package that lies in an archive (PySpark itself, ``pyspark.zip``) Python then reads the
archive's directory again, in Python: 0.23 s of each task, where reading a small batch takes 3 ms.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final
from zipimport import zipimporter

State = tuple[int, int, int]
_METHOD: Final = "invalidate_caches"


def keep_unchanged() -> None:
    """From now on, archives that are known in this process are read again only if their files have changed. Calling it
    again changes nothing."""
    if not isinstance(zipimporter.invalidate_caches, _Invalidate):
        importers = [each for each in sys.path_importer_cache.values() if isinstance(each, zipimporter)]
        known = {each.archive: state for each in importers if (state := _state(each.archive)) is not None}
        setattr(zipimporter, _METHOD, _Invalidate(zipimporter.invalidate_caches, known))


class _Invalidate:
    """`zipimporter.invalidate_caches` but for archives that are as they were. A method of that class."""

    def __init__(self, original: Callable[[zipimporter], None], known: dict[str, State]) -> None:
        self._original = original
        self._known = known

    def __get__(self, importer: zipimporter | None, owner: type) -> Callable[[], None] | _Invalidate:
        return self if importer is None else lambda: self(importer)

    def __call__(self, importer: zipimporter) -> None:
        known = self._known.get(importer.archive)
        if known is None or known != _state(importer.archive):
            self._original(importer)


def _state(archive: str) -> State | None:
    """What changes with a file; None if there is none."""
    try:
        found = os.stat(archive)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
