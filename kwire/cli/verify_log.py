"""``kwire verify-log DIR...``: check whole data directories while no broker uses them.

Reads everything and changes nothing. Exit status 0: all is well; 1: something was found (or DIR is in use or cannot be
read); 2: wrong command line. Findings are lines on standard output, ``--json`` makes them one JSON object each, with a
last object of totals.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any, NamedTuple

from kwire.base.doors import Files
from kwire.cli import fail, output
from kwire.log.common import names
from kwire.log.verification.offline import DirectoryVerifier


class VerifiedDirectory(NamedTuple):
    """How much was verified, after the findings of a directory."""

    directory: str
    findings: int
    partitions: int
    segments: int
    batches: int
    records: int
    bytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kwire verify-log``."""
    parser.add_argument("directories", nargs="+", metavar="DIR", help="a directory of log.dirs")
    parser.add_argument("--deep", action="store_true", help="also unpack every batch and walk its records")
    output.add_arguments(parser)
    parser.add_argument("--json", action="store_const", const="jsonl", dest="output", help="short for -o jsonl")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def run(arguments: argparse.Namespace) -> int:
    """Verify each directory; 1 if anything was found."""
    status = 0
    rows = output.Stream(arguments.output, _as_text)
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
            status |= _verify(directory, arguments, rows)
        except OSError as error:
            status = fail(f"{error.filename or directory}: {error.strerror or error}")
        finally:
            files.close(lock)
    rows.close()
    return status


def _is_partition(directory: str, files: Files) -> bool:
    if names.parse_directory_name(os.path.basename(os.path.abspath(directory))) is None:
        return False
    return any(name.endswith(names.LOG_SUFFIX) for name in files.listdir(directory))


def _verify(directory: str, arguments: argparse.Namespace, rows: output.Stream) -> int:
    verifier = DirectoryVerifier(directory, deep=arguments.deep)
    verifier.run(None if arguments.quiet else _Progress())
    for finding in verifier.findings:
        rows.add(finding._asdict())
    rows.add(VerifiedDirectory(directory, len(verifier.findings), *verifier.totals)._asdict())
    return 1 if verifier.findings else 0


def _as_text(row: dict[str, Any]) -> str:
    if "problem" in row:
        return f"{row['path']}: {row['problem']}"
    total = VerifiedDirectory(**row)
    return (
        f"{total.directory}: {total.findings} finding{'s' * (total.findings != 1)} in {total.partitions} partitions,"
        f" {total.segments} segments, {total.batches} batches, {total.records} records, {total.bytes} bytes"
    )


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
