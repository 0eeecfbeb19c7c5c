"""Write and read records with `kwire` and with kcat, beside one another.

    .venv/bin/python -m tools.benchmark.beside_kcat [--records 10000000] [--size 96]

Each program writes a file of lines to a topic of its own with one partition, and reads its own topic into a file; both
files must be the same again. The processor time is that of the program, start included, without the broker's: it is
what to compare while other processes are busy.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, NamedTuple

from harness.processes.brokers import make_broker

_LINES_AT_ONCE = 100_000


class Taken(NamedTuple):
    """What a program has taken."""

    elapsed_s: float
    processor_s: float


def taken(command: list[str], output: IO[bytes] | int = subprocess.DEVNULL) -> Taken:
    """Run a program to its end."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=output, check=True)
    elapsed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def write_lines(file: Path, count: int, size: int) -> None:
    """Different lines of so many bytes, line feeds not counted."""
    with file.open("w") as stream:
        for start in range(0, count, _LINES_AT_ONCE):
            numbers = range(start, min(start + _LINES_AT_ONCE, count))
            stream.write("".join(f"{number:0{size}d}\n" for number in numbers))


def main() -> int:
    """Measure and print; 1 if what was read is not what was written."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=96)
    arguments = parser.parse_args()
    kcat = shutil.which("kcat")
    if kcat is None:
        parser.error("kcat is not installed")
    kwire = [sys.executable, "-m", "kwire"]
    with tempfile.TemporaryDirectory() as home:
        lines, read = Path(home) / "lines", Path(home) / "read"
        write_lines(lines, arguments.records, arguments.size)
        broker = make_broker("kwire", Path(home) / "broker")
        broker.start()
        os.environ["KWIRE_BOOTSTRAP_SERVER"] = broker.bootstrap
        commands = {
            "kwire": ([*kwire, "produce", "kwire", str(lines)], [*kwire, "consume", "kwire", "--until-end"]),
            "kcat": (
                [kcat, "-b", broker.bootstrap, "-P", "-t", "kcat", "-l", str(lines)],
                [kcat, "-b", broker.bootstrap, "-C", "-t", "kcat", "-e", "-q", "-o", "beginning"],
            ),
        }
        failed = False
        try:
            subprocess.run([*kwire, "topic", "create", *commands], stdout=subprocess.DEVNULL, check=True)
            for name, (write_command, read_command) in commands.items():
                _print(f"{name} writes", taken(write_command), arguments.records)
                with read.open("wb") as output:
                    _print(f"{name} reads", taken(read_command, output), arguments.records)
                if not filecmp.cmp(lines, read, shallow=False):
                    print(f"{name}: what was read is not what was written")
                    failed = True
        finally:
            broker.stop()
    return int(failed)


def _print(what: str, figures: Taken, records: int) -> None:
    per_record_us = figures.processor_s / records * 1e6
    print(
        f"{what:<14} {figures.elapsed_s:7.1f} s elapsed  {figures.processor_s:7.1f} s of processor time"
        f"  {per_record_us:6.2f} us a record  {records / figures.elapsed_s:12,.0f} records/s",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
