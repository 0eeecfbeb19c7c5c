from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

PROGRAM = """
import importlib, sys, zipimport
from kwire.spark.archives import keep_unchanged

import package.one
reads = []
original = zipimport._read_directory
zipimport._read_directory = lambda archive: reads.append(archive) or original(archive)
keep_unchanged()
keep_unchanged()
importlib.invalidate_caches()
print(len(reads))
from zipfile import ZipFile
with ZipFile(sys.argv[1], "a") as archive:
    archive.writestr("package/two.py", "")
importlib.invalidate_caches()
import package.two
print(len(reads) > 0)
"""


def test_an_archive_is_read_again_only_if_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "archive.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("package/__init__.py", "")
        archive.writestr("package/one.py", "")
    command = [sys.executable, "-c", PROGRAM, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert ended.stdout.split() == ["0", "True"], ended.stderr
