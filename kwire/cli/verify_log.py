"""``kwire verify-log DIR...``: check whole data directories while no broker uses them.

Reads everything and changes nothing. Exit status 0: all is well; 1: something was found (or DIR is in use or cannot be
read); 2: wrong command line. Findings are lines on standard output, ``--json`` makes them one JSON object each, with a
last object of totals.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from kwire.base.doors import Files
from kwire.cli import fail
from kwire.log.common import names
from kwire.log.verification.offline import DirectoryVerifier


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kwire verify-log``."""
    parser.add_argument("directories", nargs="+", metavar="DIR", help="a directory of log.dirs")
    parser.add_argument("--deep", action="store_true", help="also unpack every batch and walk its records")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def run(arguments: argparse.Namespace) -> int:
    """Verify each directory; 1 if anything was found."""
    status = 0
    for directory in arguments.directories:
        files = Files()
        if not files.is_dir(directory):
            status = fail(f"{directory} is no directory")
            continue
        if _is_partition(directory, files):
            parent = os.path.dirname(os.path.abspath(directory))
            status = fail(f"{directory} is one partition's directory: verify the directory of log.dirs, {parent}")
            continue
        lock = files.lock(f"{directory}/.lock")
        if lock is None:
            status = fail(f"{directory} is in use by a broker: stop it first")
            continue
        try:
            status |= _verify(directory, arguments)
        except OSError as error:
            status = fail(f"{error.filename or directory}: {error.strerror or error}")
        finally:
            files.close(lock)
    return status


def _is_partition(directory: str, files: Files) -> bool:
    if names.parse_directory_name(os.path.basename(os.path.abspath(directory))) is None:
        return False
    return any(name.endswith(names.LOG_SUFFIX) for name in files.listdir(directory))


def _verify(directory: str, arguments: argparse.Namespace) -> int:
    verifier = DirectoryVerifier(directory, deep=arguments.deep)
    verifier.run(None if arguments.quiet else _Progress())
    for finding in verifier.findings:
        print(json.dumps(finding._asdict()) if arguments.json else f"{finding.path}: {finding.problem}")
    totals, found = verifier.totals, len(verifier.findings)
    if arguments.json:
        print(json.dumps({"directory": directory, "findings": found, **totals._asdict()}))
    else:
        print(
            f"{directory}: {found} finding{'s' * (found != 1)} in {totals.partitions} partitions, {totals.segments} "
            f"segments, {totals.batches} batches, {totals.records} records, {totals.bytes} bytes"
        )
    return 1 if verifier.findings else 0


class _Progress:
    """A line on standard error: partitions done, bytes read, and an estimate of the time left."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._told = 0.0

    def __call__(self, done: int, total: int, size: int) -> None:
        now = time.monotonic()
        if done < total and now - self._told < 1:
            return
        self._told = now
        elapsed = now - self._started
        left = f", {elapsed / done * (total - done):.0f} s left" if 0 < done < total else ""
        end = "\r" if sys.stderr.isatty() and done < total else "\n"
        print(f"{done} of {total} partitions, {size / 1e6:.1f} MB{left}", end=end, file=sys.stderr, flush=True)
