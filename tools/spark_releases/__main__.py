"""Try `kwire.spark` with every release of PySpark, as users install it, and print a table.

    .venv/bin/python -m tools.spark_releases                        all releases, with this Python
    .venv/bin/python -m tools.spark_releases --pyspark newest --python python3.12 --python python3.13
    .venv/bin/python -m tools.spark_releases --connect --pyspark newest

For each release and each Python: a virtual environment of its own, ``pip install 'kwire[spark]' pyspark==V`` from a
wheel of this tree, and the queries of `queries` against a kwire that is started for it, with jars that Spark
downloads into a folder of this run. With --connect the queries' session is one of Spark Connect, and its server is a
process of its own. It takes one to four minutes for each. The exit status is 1 if one of them fails; --logs says where
the output of each goes.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from harness.paths import ROOT
from harness.processes.brokers import BrokerFailed, make_broker
from harness.processes.ports import free_port
from kwire.spark.sessions import connector
from tools.spark_releases.queries import SETTINGS

FIRST = (4, 0, 0)
INSTALL_S = 1800.0
QUERIES_S = 600.0
QUERIES = Path(__file__).with_name("queries.py")
NEWEST = "newest"
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class Tried(NamedTuple):
    """One release with one Python: what came of it ("works", or the last line of the failure), and how long it took."""

    pyspark: str
    python: str
    result: str
    seconds: float

    def row(self) -> str:
        """A line of the table."""
        package = connector(self.pyspark).rpartition(":")[2]
        return f"| {self.pyspark} | {self.python} | {package} | {self.result} | {self.seconds:.0f} s |"


class Failed(Exception):
    """A step failed; the message is the line that says why."""


def releases() -> list[str]:
    """The releases of PySpark from 4.0.0 on, oldest first, as pip lists them."""
    command = [sys.executable, "-m", "pip", "index", "versions", "pyspark"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return releases_in(listed)


def releases_in(listed: str) -> list[str]:
    """The releases from 4.0.0 on in the output of ``pip index versions``, oldest first."""
    found = re.search(r"^Available versions: (.*)$", listed, re.MULTILINE)
    versions = {
        tuple(map(int, each.split("."))) for each in re.findall(r"\b\d+\.\d+\.\d+\b", found[1] if found else "")
    }
    return [".".join(map(str, version)) for version in sorted(versions) if version >= FIRST]


def run(command: list[str], log: Path, timeout_s: float, folder: Path) -> None:
    """Run a command with its output in a log. Raises `Failed`."""
    with open(log, "a") as output:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=plain_environment(),
                stdout=output,
                stderr=output,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{Path(command[0]).name}: not within {timeout_s:.0f} s") from None
    if done.returncode != 0:
        raise Failed(why(log.read_text(errors="replace")))


def plain_environment() -> dict[str, str]:
    """The variables of this process, without those that would lead to other packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}


def why(text: str) -> str:
    """The line of a log that names the failure: the first that Ivy could not find, or the last error."""
    lines = [line.strip(" :\t") for line in text.splitlines()]
    missing = [line for line in lines if line.endswith(": not found")]
    errors = [line for line in lines if re.match(r"(ERROR: |[\w.]*(Error|Exception)\b)", line)]
    return (missing[:1] + errors[-1:] + lines[-1:] + ["no output"])[0].replace("|", "/")


def attempt(wheel: Path, pyspark: str, python: str, scratch: Path, log: Path, *, connects: bool) -> None:
    """Install a release in a fresh environment and run the queries in it. Raises `Failed` and `BrokerFailed`."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        run([python, "-m", "venv", str(folder / "venv")], log, INSTALL_S, folder)
        own = str(folder / "venv" / "bin" / "python")
        extra = "[connect]" if connects else ""
        packages = [f"kwire[spark] @ {wheel.as_uri()}", f"pyspark{extra}=={pyspark}"]
        run([own, "-m", "pip", "install", "--quiet", "--no-compile", *packages], log, INSTALL_S, folder)
        broker = make_broker("kwire", folder / "broker")
        try:
            broker.start()
            queries = [own, "-P", str(QUERIES), broker.bootstrap, str(folder)]
            ivy = f"spark.jars.ivy={scratch / 'ivy'}"
            if connects:
                with connect_server(own, ivy, log, folder) as url:
                    run([*queries, f"spark.remote={url}"], log, QUERIES_S, folder)
            else:
                run([*queries, ivy], log, QUERIES_S, folder)
        finally:
            broker.kill()


@contextmanager
def connect_server(python: str, ivy: str, log: Path, folder: Path) -> Iterator[str]:
    """A server of Spark Connect with Spark's connector, as the guide starts it; its address for clients. Raises
    `Failed`."""
    port = free_port()
    own = {"spark.master": "local[2]", "spark.connect.grpc.binding.port": str(port), **SETTINGS}
    settings = [f"--conf={ivy}", *(f"--conf={name}={value}" for name, value in own.items())]
    environment = {**plain_environment(), "PYSPARK_PYTHON": python}
    printing = [python, "-P", "-m", "kwire.spark"]
    asked = subprocess.run(printing, check=True, capture_output=True, text=True, cwd=folder, env=environment)
    command = [str(Path(python).with_name("spark-submit")), *asked.stdout.split(), *settings, "--class", CONNECT_SERVER]
    with open(log, "a") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        end_s = time.monotonic() + QUERIES_S
        while not listens(port):
            if process.poll() is not None or time.monotonic() > end_s:
                raise Failed(why(log.read_text(errors="replace")))
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def listens(port: int) -> bool:
    """Whether something listens at a port of this machine."""
    with socket.socket() as own:
        return own.connect_ex(("127.0.0.1", port)) == 0


def tried(wheel: Path, pyspark: str, python: str, scratch: Path, logs: Path, *, connects: bool) -> Tried:
    """Try a release with a Python, an interpreter by name or path."""
    asked = "import platform; print(platform.python_version())"
    version = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
    started = time.monotonic()
    try:
        attempt(wheel, pyspark, python, scratch, logs / f"{pyspark}-{version}.log", connects=connects)
        result = "works"
    except (Failed, BrokerFailed) as error:
        result = str(error)
    return Tried(pyspark, version, result, time.monotonic() - started)


def build(folder: Path) -> Path:
    """A wheel of this tree."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pyspark", action="append", help="a release, or newest (default: all from 4.0.0 on)")
    parser.add_argument("--python", action="append", help="an interpreter (default: this one)")
    parser.add_argument("--connect", action="store_true", help="through Spark Connect")
    parser.add_argument("--logs", type=Path, help="a folder for the output of each (default: a temporary one)")
    options = parser.parse_args(arguments)
    known = releases()
    wanted = [known[-1] if each == NEWEST else each for each in options.pyspark or known]
    logs = options.logs or Path(tempfile.mkdtemp(prefix="kwire-spark-logs-"))
    logs.mkdir(parents=True, exist_ok=True)
    failed = False
    print("| PySpark | Python | connector | result | took |\n| --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory(prefix="kwire-spark-") as name:
        wheel = build(Path(name) / "wheel")
        for pyspark in wanted:
            for python in options.python or [sys.executable]:
                found = tried(wheel, pyspark, python, Path(name), logs, connects=options.connect)
                print(found.row(), flush=True)
                failed = failed or found.result != "works"
    if failed:
        print(f"the output is in {logs}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
