"""Kill the driver, the executors and the broker of a copying Spark job at random; then audit the copy.

    python -m campaigns.pipelines.exactly_once --records 1000000 --kills 50

Records are written to a topic, and a Spark job copies them with ``format("kwire")`` as source and as sink, on a master
with executors in processes of their own (local-cluster). Meanwhile the driver, an executor or the broker is killed with
SIGKILL, again and again, at random moments, and started again; three kills in a row are one of each, in random order.
Some records are written between any two kills. Each driver divides the rows over another number of tasks, and
speculation is on. At the end ``kwire audit`` compares both topics under read_committed: they have to be equal.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from campaigns.command_line import campaign_parser
from harness.auditing.planted_faults import Planted, produce
from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker, wait_until
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.offsets import LATEST, list_offsets
from kwire.testing.blocking_client import BlockingClient
from kwire.testing.topics import create_topic

VICTIMS: Final = ("driver", "executor", "broker")
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
_PARTITIONS: Final = 4
_WAIT_S: Final = 300.0
_LINES: Final = 60
_PAUSE_S: Final = 0.05
_TRY_S: Final = 10.0


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0 if the copy is equal."""
    parser = campaign_parser("pipelines.exactly_once", __doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=("kwire", "kafka"), default="kwire")
    parser.add_argument("--master", default="local-cluster[2,1,1024]", help="without executors of its own: local[2]")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kwire-exactly-once-", ignore_cleanup_errors=True) as folder:
        broker = make_broker(options.broker, Path(folder) / "broker", {"log.retention.check.interval.ms": "600000"})
        broker.start()
        try:
            campaign = _Campaign(broker, Path(folder), options.master, random.Random(options.seed))
            return campaign.run(options.records, options.kills)
        finally:
            broker.kill()


class _Job:
    """The Spark job as a process; it is killed with all that it has started."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        command = [sys.executable, "-m", "campaigns.pipelines.copy_job", *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        self._log = folder / "job.log"
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        self._checkpoint = folder / "checkpoint"
        self._begun = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def has_begun(self) -> bool:
        """Whether its query runs. RuntimeError if it has ended by itself."""
        if self._process.poll() is not None:
            log = self._log.read_text(errors="replace").splitlines()
            raise RuntimeError("the job ended by itself:\n" + "\n".join(log[-_LINES:]))
        return self._begun.is_set()

    def position(self) -> int:
        """The sum of the source's offsets in the last batch that Spark has put behind it."""
        self.has_begun()
        commits = [int(each.name) for each in (self._checkpoint / "commits").glob("[0-9]*")]
        if not commits:
            return 0
        *_, line = (self._checkpoint / "offsets" / str(max(commits))).read_text().splitlines()
        return sum(offset for number, offset in json.loads(line)["source"].items() if number.isdecimal())

    def executors(self) -> list[int]:
        """Process ids of its executors, by their command lines in its own session."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                pid = int(entry.name)
                if os.getsid(pid) == self._process.pid and _EXECUTOR in (entry / "cmdline").read_bytes():
                    found.append(pid)
        return found

    def kill(self) -> None:
        """SIGKILL for all processes of its session."""
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                pid = int(entry.name)
                if os.getsid(pid) == self._process.pid:
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(10)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for _ in lines:
                self._begun.set()


class _Campaign:
    """One run."""

    def __init__(self, broker: Broker, folder: Path, master: str, rng: random.Random) -> None:
        self._broker = broker
        self._folder = folder
        self._master = master
        self._rng = rng
        self._kills = self._per_trigger = 0
        self._killed: Counter[str] = Counter()
        self._victims: list[str] = []  # the next ones, the last first: each comes once before any comes again
        self._stopped = threading.Event()

    def run(self, records: int, kills: int) -> int:
        """Fill the source, kill, wait for the end, audit."""
        for name in ("source", "target"):
            create_topic(self._broker.bootstrap, name, _PARTITIONS, {"retention.ms": "-1"}, _WAIT_S)
        self._kills, self._per_trigger = kills, max(records // (kills + 1), 1)
        started_s = time.monotonic()
        self._job = self._started()
        writer = threading.Thread(target=self._write, args=(records,), daemon=True)
        writer.start()
        try:
            while self._killed.total() < kills:
                self._kill_one()
            wait_until(lambda: not writer.is_alive(), _WAIT_S * 4, "the end of the writing")
            end = self._end()
            wait_until(lambda: self._job.position() >= end, _WAIT_S * 4, "the end of the copy")
        finally:
            self._stopped.set()
            self._job.kill()
        took_s = time.monotonic() - started_s
        print(f"{records:,} records, killed: {dict(sorted(self._killed.items()))}, copied in {took_s:.0f} s")
        return self._audited()

    def _started(self) -> _Job:
        tasks = str(self._rng.randint(1, 4))
        words = [self._broker.bootstrap, "source", "target", str(self._folder), self._master, tasks]
        return _Job([*words, str(self._per_trigger)], self._folder)

    def _write(self, records: int) -> None:
        """Write the source, a part for each kill. What a dying broker has perhaps taken is written again, so that both
        ends have it twice."""
        planted = Planted(records, 0, _PARTITIONS, batch=max(self._per_trigger // 8, 1))
        written = 0
        for partition, content in planted.contents():
            while (killed := self._killed.total()) < self._kills and written * self._kills > records * killed:
                if self._stopped.wait(_PAUSE_S):
                    return
            while True:
                try:
                    with BlockingClient(self._broker.bootstrap, timeout_s=_TRY_S) as client:
                        produce(client, "source", partition, content)
                    break
                except (OSError, AssertionError):  # no broker, or one that has just begun
                    if self._stopped.wait(_PAUSE_S):
                        return
            written += planted.batch

    def _end(self) -> int:
        """The sum of the ends of the source's partitions."""

        async def ask() -> int:
            cluster = Cluster.of(self._broker.bootstrap, {}, _WAIT_S)
            try:
                places = [("source", partition) for partition in range(_PARTITIONS)]
                found = await list_offsets(cluster, dict.fromkeys(places, LATEST))
                return sum(each.offset for each in found.values())
            finally:
                cluster.close()

        return asyncio.run(ask())

    def _kill_one(self) -> None:
        """Wait until the job works, and a random time more, then kill a random part of it and start that again."""
        job = self._job
        wait_until(job.has_begun, _WAIT_S, "the job's start")
        seen = job.position()
        time.sleep(self._rng.uniform(0, 8))
        self._victims = self._victims or self._rng.sample(VICTIMS, len(VICTIMS))
        victim = self._victims[-1]
        if victim == "driver":
            job.kill()
            self._job = self._started()
        elif victim == "executor":
            executors = job.executors()
            if not executors:  # being replaced just now
                return
            os.kill(self._rng.choice(executors), signal.SIGKILL)
        else:
            self._broker.kill()
            time.sleep(self._rng.uniform(0, 2))
            self._broker.start()
        self._victims.pop()
        self._killed[victim] += 1
        print(f"{self._killed.total()}: {victim} killed at {seen:,}", flush=True)

    def _audited(self) -> int:
        command = [sys.executable, "-m", "kwire", "audit", "source", "target", "-b", self._broker.bootstrap]
        done = subprocess.run([*command, "--order", "none", "-q", "-o", "json"], stdout=subprocess.PIPE, check=False)
        if done.returncode == 2:
            return 2
        (row,) = json.loads(done.stdout)
        print(
            f"audit: {row['verdict']}, {row['source_records']:,} and {row['copy_records']:,} records, {row['faults']}"
        )
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
