"""Copy topics in transactions while the copiers and the broker are killed: the output must equal the input.

    .venv/bin/python -m campaigns.copying --records 100000 --seed 1
    .venv/bin/python -m campaigns.copying --records 100000 --seed 2 --together --broker-kills 20

Each client (`CLIENTS`) copies a topic of its own, partition by partition, in transactions of ``--per-transaction``
records that include the offsets (consume, transform, produce). Its process is killed with SIGKILL at random moments and
started again; so is the broker, on the same data. In the end a read_committed consumer must have seen every record
once, in the order of its partition. Each client has a broker of its own, one client after the other, or all share one
broker (``--together``).

Progress goes to standard error. A line of JSON is printed for each client; with ``--out FILE`` it is appended to the
file as well, and clients that the file contains are skipped. The exit status is 1 if a copy differs or never completes.
``--broker kafka`` runs the same campaign against Apache Kafka.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaigns.command_line import campaign_parser
from harness.java_runner import java_class_path
from harness.kafka_jars import java_command
from harness.optional import present
from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker

CLIENTS = ("confluent", "kafka-python", "aiokafka", "java", "java-consumer")
PARTITIONS = 2
QUIET_S = 3.0
"""How long to wait for records after the copy is complete: none may follow."""


@dataclass(frozen=True)
class Plan:
    """What is copied, in which transactions, and how often clients and brokers are killed."""

    records: int = 100_000
    per_transaction: int = 750
    seed: int = 1
    client_kills: int = 12
    broker_kills: int = 6
    session_timeout_ms: int = 6000
    pause_ms: int = 50
    """A copier's longest pause before and after it sends a transaction's offsets, so that kills hit the middle, too."""
    stall_s: float = 180.0
    """A copy without progress for this long has failed."""


class Copier:
    """The process that copies. It is started again whenever it has ended."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def keep_running(self) -> None:
        """Start the process, unless it runs."""
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            with open(self.log, "ab") as log:
                self._process = subprocess.Popen(
                    self._command, stdout=log, stderr=log, start_new_session=True, cwd=ROOT
                )

    def kill(self) -> None:
        """Send SIGKILL to the process, if there is one, and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


class Output:
    """The values that a read_committed consumer has delivered so far, by partition."""

    def __init__(self, bootstrap: str, topic: str, isolation_level: str = "read_committed") -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "output",
                "isolation.level": isolation_level,
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        self.values: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}

    def look(self, timeout_s: float = 0.05) -> int:
        """Read what there is; return how many values have been read in all."""
        for record in self._consumer.consume(5000, timeout_s):
            if record.error() is None:
                self.values[present(record.partition())].append(present(record.value()))
        return sum(map(len, self.values.values()))

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


@dataclass
class Copy:
    """One client's copy and its progress."""

    client: str
    copier: Copier
    output: Output
    kills_at: list[int]
    seen: int = 0
    kills: int = 0
    kill_due: float = 0.0
    moved: float = field(default_factory=time.monotonic)
    longest_pause_s: float = 0.0
    took_s: float = 0.0

    def look(self) -> None:
        """Read new output. If there is any, update the time of the last progress and the longest pause."""
        before, self.seen = self.seen, self.output.look()
        if self.seen > before:
            now = time.monotonic()
            self.longest_pause_s = max(self.longest_pause_s, now - self.moved)
            self.moved = now

    def kill_as_planned(self, chance: random.Random) -> None:
        """Kill at a random moment after each drawn count of records: in the middle of a transaction or at its end."""
        if self.kill_due and time.monotonic() >= self.kill_due:
            self.kill_due = 0.0
            self.kills += 1
            self.copier.kill()
        elif not self.kill_due and self.kills_at and self.seen >= self.kills_at[0]:
            self.kills_at.pop(0)
            self.kill_due = time.monotonic() + chance.random() * 0.2

    def differences(self, records: int) -> list[str]:
        """The differences between output and input, one line per partition."""
        found = []
        for index, values in self.output.values.items():
            wanted = [b"%d" % number for number in range(records) if number % PARTITIONS == index]
            if values != wanted:
                at = next((n for n, pair in enumerate(zip(values, wanted, strict=False)) if pair[0] != pair[1]), None)
                found.append(f"partition {index}: {len(values)} of {len(wanted)}, different from number {at} on")
        return found


class Campaign:
    """The clients that copy on one broker."""

    def __init__(self, home: Path, kind: str, clients: Sequence[str], plan: Plan) -> None:
        self.plan = plan
        self.clients = clients
        self.chance = random.Random(f"{plan.seed} {' '.join(clients)}")
        self.home = home
        self.broker = make_broker(kind, home / "broker", _settings(plan))
        self.broker_kills = 0
        self._kills_at = self._draw(plan.broker_kills, plan.records * len(clients))
        self._kill_due = 0.0
        self._told = time.monotonic()

    def _draw(self, count: int, below: int) -> list[int]:
        return sorted(self.chance.randrange(below * 4 // 5) for _ in range(count))

    def run(self) -> Iterator[dict[str, Any]]:
        """Run the copies; return one result per client."""
        self.broker.start()
        copies: list[Copy] = []
        try:
            copies += [self._copy(client) for client in self.clients]
            self._until_all_are_complete(copies)
            for copy in copies:
                yield self._result(copy)
        finally:
            for copy in copies:
                copy.copier.kill()
                copy.output.close()
            self.broker.kill()

    def _copy(self, client: str) -> Copy:
        from confluent_kafka.admin import AdminClient, NewTopic

        source, target = f"source-{client}", f"target-{client}"
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (source, target)]).values():
            future.result(30)
        _fill(self.broker, source, self.plan.records)
        copier = Copier(_command(client, self.broker, source, target, self.plan), self.home / f"{client}.log")
        output = Output(self.broker.bootstrap, target)
        return Copy(client, copier, output, self._draw(self.plan.client_kills, self.plan.records))

    def _until_all_are_complete(self, copies: list[Copy]) -> None:
        started = time.monotonic()
        for copy in copies:
            copy.moved = started
        left = list(copies)
        while left:
            for copy in left:
                copy.copier.keep_running()
                copy.look()
                copy.kill_as_planned(self.chance)
            self._kill_as_planned(copies)
            self._tell(copies)
            for copy in list(left):
                if copy.seen < self.plan.records:
                    copy.took_s = time.monotonic() - started
                stalled = time.monotonic() - copy.moved > self.plan.stall_s
                # Many records may come at once: then the last kills come when all are there.
                awaits_kill = copy.kills_at or copy.kill_due or self._kills_at or self._kill_due
                if (copy.seen >= self.plan.records and not awaits_kill) or stalled:
                    left.remove(copy)
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end:
            for copy in copies:
                copy.look()

    def _kill_as_planned(self, copies: list[Copy]) -> None:
        if self._kill_due and time.monotonic() >= self._kill_due:
            self._kill_due = 0.0
            self.broker_kills += 1
            self.broker.kill()
            self.broker.start()
        elif not self._kill_due and self._kills_at and sum(copy.seen for copy in copies) >= self._kills_at[0]:
            self._kills_at.pop(0)
            self._kill_due = time.monotonic() + self.chance.random() * 0.2

    def _tell(self, copies: list[Copy]) -> None:
        if time.monotonic() - self._told > 5:
            self._told = time.monotonic()
            counts = ", ".join(f"{copy.client} {copy.seen} ({copy.copier.starts} starts)" for copy in copies)
            print(f"{counts}; {self.broker_kills} kills of the broker", file=sys.stderr, flush=True)

    def _result(self, copy: Copy) -> dict[str, Any]:
        found = copy.differences(self.plan.records)
        everything = Output(self.broker.bootstrap, f"target-{copy.client}", "read_uncommitted")
        while everything.look(2.0) != (before := everything.look(2.0)):
            pass
        everything.close()
        return {
            "client": copy.client,
            "broker": self.broker.kind,
            "seed": self.plan.seed,
            "records": self.plan.records,
            "per_transaction": self.plan.per_transaction,
            "together": len(self.clients) > 1,
            "client_kills": copy.kills,
            "client_starts": copy.copier.starts,
            "broker_kills": self.broker_kills,
            "took_s": round(copy.took_s, 1),
            "longest_pause_s": round(copy.longest_pause_s, 1),
            "aborted_records": before - copy.seen,
            "result": "equal" if not found else "; ".join(found),
            **({} if not found else {"log": str(copy.copier.log)}),
        }


def _command(client: str, broker: Broker, source: str, target: str, plan: Plan) -> list[str]:
    numbers = map(str, (plan.per_transaction, plan.session_timeout_ms, plan.pause_ms))
    arguments = [broker.bootstrap, source, target, f"group-{source}", *numbers]
    if client.startswith("java"):
        protocol = client.partition("-")[2] or "classic"
        return java_command("-cp", java_class_path(), "Copier", *arguments, protocol)
    return [sys.executable, "-m", "harness.copier", client, *arguments]


def _settings(plan: Plan) -> dict[str, str]:
    """The broker's settings: it decides the session timeout of members that use the consumer protocol (KIP-848)."""
    timeout, interval = str(plan.session_timeout_ms), str(plan.session_timeout_ms // 4)
    return {
        "group.consumer.min.session.timeout.ms": timeout,
        "group.consumer.session.timeout.ms": timeout,
        "group.consumer.min.heartbeat.interval.ms": interval,
        "group.consumer.heartbeat.interval.ms": interval,
    }


def _fill(broker: Broker, topic: str, records: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 0})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def _is_done(result: dict[str, Any], kind: str, client: str, plan: Plan) -> bool:
    wanted = {"client": client, "broker": kind, "seed": plan.seed, "records": plan.records, "result": "equal"}
    return all(result.get(name) == value for name, value in wanted.items())


def run_campaign(home: Path, kind: str, groups: Sequence[Sequence[str]], plan: Plan) -> Iterator[dict[str, Any]]:
    """Run each group of clients on a broker of its own, one group after the other."""
    for number, clients in enumerate(groups):
        yield from Campaign(home / str(number), kind, clients, plan).run()


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 if a copy differs."""
    parser = campaign_parser("copying", __doc__)
    parser.add_argument("--records", type=int, default=Plan.records)
    parser.add_argument("--per-transaction", type=int, default=Plan.per_transaction)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="clients, separated by commas")
    parser.add_argument("--client-kills", type=int, default=Plan.client_kills, help="how often each client is killed")
    parser.add_argument("--broker-kills", type=int, default=Plan.broker_kills)
    parser.add_argument("--stall-s", type=float, default=Plan.stall_s)
    parser.add_argument("--broker", choices=("kwire", "kafka"), default="kwire")
    parser.add_argument("--together", action="store_true", help="all clients on one broker at the same time")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--home", type=Path, help="where brokers and logs are kept")
    options = parser.parse_args(arguments)
    plan = Plan(
        options.records,
        options.per_transaction,
        options.seed,
        options.client_kills,
        options.broker_kills,
        stall_s=options.stall_s,
    )
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if _exists(options.out) else []
    clients = [
        client
        for client in options.clients.split(",")
        if not any(_is_done(result, options.broker, client, plan) for result in done)
    ]
    home = options.home or Path(tempfile.mkdtemp(prefix="copy-campaign-"))
    groups = [clients] if options.together else [[client] for client in clients]
    failed = False
    for result in run_campaign(home, options.broker, [group for group in groups if group], plan):
        line = json.dumps(result)
        print(line, flush=True)
        failed = failed or result["result"] != "equal"
        if options.out is not None:
            with open(options.out, "a") as out:
                out.write(line + os.linesep)
    return 1 if failed else 0


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()


if __name__ == "__main__":
    sys.exit(main())
