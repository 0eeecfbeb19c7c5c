"""Run real brokers and clients while brokers are killed, paused, cut off and expelled; then check the history.

    .venv/bin/python -m campaigns.chaos --store embedded --seconds 300 --seed 1 --runs 5
    .venv/bin/python -m campaigns.chaos --store zookeeper --seconds 300 --seed 1 --runs 5

Three broker processes share a metadata store. Each broker has a network namespace of its own, and so has a ZooKeeper
server. Clients (confluent-kafka and aiokafka, a process each, in the root namespace, without faults) send unique values
with idempotent producers and acks=all, write and read in transactions, copy everything exactly once, and read with both
isolation levels. With ``--share``, a share group reads everything, too. With ``--secured``, clients and brokers log in
over TLS, brokers at ZooKeeper, too, and there are an authorizer and quotas. A seed decides which faults come when
(`campaigns/chaos/faults.py`); real time decides the rest, so a seed does not replay. At the end all faults are removed,
everything is read, the brokers are stopped and their logs are compared.

Namespaces need root, `ip` and `iptables`; `--no-namespaces` runs on loopback, without network partitions. Progress goes
to standard error; each run prints one line of JSON and keeps its history. The data is kept with `--keep`, or if
something is wrong; the exit status is 1 then.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from campaigns.chaos import network, sharing
from campaigns.chaos.checks import check_history, different_replicas
from campaigns.chaos.cluster import STORE_HOST, Cluster
from campaigns.chaos.faults import GAP_S, LASTS_S, Nemesis, kinds_for, plan
from campaigns.chaos.history import Writer, counts, merge
from campaigns.chaos.reading import ReadingFailed, read_all
from campaigns.chaos.workers import COPIES, GROUP, TOPIC, Job
from campaigns.command_line import campaign_parser
from harness.paths import ROOT

PARTITIONS = 6
FINISH_S = 180.0
CREATE_S = 30.0
TRANSACTIONS_PER_S = 8.0


@dataclass(frozen=True)
class Options:
    """The options of one run. ``rate``: records per second of all producers outside transactions together."""

    store: str = "embedded"
    seconds: float = 300.0
    seed: int = 1
    rate: float = 135.0
    namespaces: bool = True
    gap_s: tuple[float, float] = GAP_S
    longest_s: float = LASTS_S[-1][1]
    secured: bool = False
    share: bool = False


class Worker:
    """A client process, which is started again if it ends too soon."""

    def __init__(self, home: Path, job: dict[str, Any]) -> None:
        self.name = str(job["name"])
        self.history = home / f"history-{self.name}.jsonl"
        self._log: IO[bytes] = open(home / f"client-{self.name}.log", "ab")  # noqa: SIM115
        self._job = {**job, "history": str(self.history)}
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._draining = False

    def start(self) -> None:
        """Start the process as the next instance. With `setpriv` it is killed when this process ends."""
        self.starts += 1
        command = [sys.executable, "-m", "campaigns.chaos.workers", Job(instance=self.starts, **self._job).text()]
        if shutil.which("setpriv"):
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=self._log, stderr=self._log, start_new_session=True
        )
        if self._draining:
            self.drain()

    def keep_running(self) -> bool:
        """Start it again if it has failed; return whether it has done all its work."""
        assert self._process is not None
        status = self._process.poll()
        if status:
            self.start()
        return status == 0

    def drain(self) -> None:
        """Close its standard input: nothing more will be written. A later instance finds it closed at once."""
        self._draining = True
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """Kill the process, if it was started, and close its log."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._log.close()


@dataclass
class Run:
    """One run from its start to its result."""

    options: Options
    home: Path
    wrong: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    summary: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._writer = Writer(self.home / "history-nemesis.jsonl", "nemesis")
        self._told = time.monotonic()

    def run(self) -> None:
        """Fills ``wrong`` and ``summary``."""
        hosts = ["b1", "b2", "b3", *([STORE_HOST] if self.options.store == "zookeeper" else [])]
        with network.made(hosts, namespaces=self.options.namespaces) as net:
            cluster = Cluster(
                self.home,
                self.options.store,
                net,
                self.options.secured,
                sharing.SETTINGS if self.options.share else None,
            )
            try:
                cluster.start()
                self._trouble(cluster)
            finally:
                for worker in self._workers.values():
                    worker.close()
                cluster.close()

    def _trouble(self, cluster: Cluster) -> None:
        options = self.options
        _create_topics(cluster)
        self.wrong += filter(None, [cluster.await_well([TOPIC, COPIES])])
        began = time.monotonic()
        self._start_workers(cluster)
        nemesis = Nemesis(cluster, self._say, self.faults)
        kinds = kinds_for(options.store, namespaces=options.namespaces)
        nemesis.run(plan(options.seed, options.seconds, kinds, options.gap_s, options.longest_s), began, self._watch)
        while time.monotonic() < began + options.seconds:
            self._watch()
            time.sleep(0.1)
        cluster.mend()
        self._say("mend", "all faults are over")
        self.wrong += filter(None, [cluster.await_well([TOPIC, COPIES, "__transaction_state"])])
        self._say("mend", "all ISRs are whole" if not self.wrong else self.wrong[-1])
        self._finish(cluster)

    def _start_workers(self, cluster: Cluster) -> None:
        options, until = self.options, time.time() + self.options.seconds
        share, pace = options.rate / 3, TRANSACTIONS_PER_S
        roles = [
            ("p1", "produce", share),
            ("p2", "produce singly", share),
            ("p3", "produce aiokafka", share),
            ("t1", "transact", pace),
            ("t2", "transact", pace),
            ("k1", "copy", pace),
            ("k2", "copy", pace),
            ("c1", "consume", pace),
            ("c2", "consume committed", pace),
            *([("s1", "share", pace)] if options.share else []),
        ]
        for name, role, rate in roles:
            job = {
                "name": name,
                "role": role,
                "bootstrap": cluster.bootstrap,
                "partitions": PARTITIONS,
                "until": until,
                "rate": rate,
                "seed": options.seed,
                "security": {} if cluster.security is None else cluster.security.as_json(),
            }
            self._workers[name] = Worker(self.home, job)
            self._workers[name].start()

    def _watch(self) -> None:
        for worker in self._workers.values():
            worker.keep_running()
        if time.monotonic() > self._told + 10:
            self._told = time.monotonic()
            print(f"... {dict(self.faults)}", file=sys.stderr, flush=True)

    def _say(self, kind: str, what: str) -> None:
        self._writer("info", kind, what=what)
        print(f"{time.strftime('%H:%M:%S')} {kind}: {what}", file=sys.stderr, flush=True)

    # The end

    def _finish(self, cluster: Cluster) -> None:
        """Let the consumers read to the end, read everything once more from the beginning, and check the history."""
        self._await(["p1", "p2", "p3", "t1", "t2"])
        try:
            final = read_all(cluster.client, TOPIC, PARTITIONS, "read_uncommitted")
            committed = read_all(cluster.client, TOPIC, PARTITIONS, "read_committed")
            copies = self._await_copies(cluster, sum(map(len, committed.values())))
        except ReadingFailed as error:
            self.wrong.append(f"unread: {error}")
            return
        readers = ["k1", "k2", "c1", "c2", *(["s1"] if self.options.share else [])]
        for name in readers:
            self._workers[name].drain()
        self._await(readers)
        # A broker that stood still meanwhile may have lost its session; a replica that is not in sync differs.
        self.wrong += filter(None, [cluster.await_well([TOPIC, COPIES])])
        self.wrong += cluster.stop()
        self.wrong += different_replicas([each.data_dir for each in cluster.brokers.values()], [TOPIC, COPIES])
        self.wrong += cluster.tracebacks()
        paths = [self.home / "history-nemesis.jsonl", *(worker.history for worker in self._workers.values())]
        events = merge(paths, self.home / "history.jsonl")
        self.wrong += check_history(events, final, committed, copies)
        if self.options.share:
            found, self.shared = sharing.check(events, committed)
            self.wrong += found
        self._summarize(events, final, committed, cluster)

    def _await(self, names: list[str]) -> None:
        """Wait until these clients have done all their work."""
        end = time.monotonic() + FINISH_S
        left = [self._workers[name] for name in names]
        while left and time.monotonic() < end:
            for worker in list(left):
                if worker.keep_running():
                    left.remove(worker)
            time.sleep(0.05)
        self.wrong += [f"client {worker.name} did not end within {FINISH_S:.0f} s" for worker in left]

    def _await_copies(self, cluster: Cluster, count: int) -> dict[int, dict[int, int]]:
        """The copies, once all are there or no more come."""
        end, found = time.monotonic() + FINISH_S, -1
        while True:
            copies = read_all(cluster.client, COPIES, PARTITIONS, "read_committed")
            now = sum(map(len, copies.values()))
            if now != found:
                end, found = time.monotonic() + FINISH_S / 2, now
            if now >= count or time.monotonic() > end:
                return copies
            self._watch()
            time.sleep(1)

    def _summarize(self, events: list[Any], final: Any, committed: Any, cluster: Cluster) -> None:
        operations = counts(events)
        done = sum(count for each in operations.values() for count in each.values())
        transactions = Counter(
            "committed" if event["wanted"] == "commit" else "aborted"
            for event in events
            if event["f"] == "txn" and event["type"] == "ok"
        )
        self.summary = {
            "operations": operations,
            "operations_per_s": round(done / self.options.seconds, 1),
            "transactions": dict(transactions),
            "records": {"all": sum(map(len, final.values())), "committed": sum(map(len, committed.values()))},
            "positions_lost_by_librdkafka": sum(event["f"] == "reset" for event in events),
            "client_restarts": {w.name: w.starts - 1 for w in self._workers.values() if w.starts > 1},
            "brokers_ended_by_themselves": len(cluster.ends),
            "events": len(events),
            **({"share": self.shared} if self.shared else {}),
        }


def _create_topics(cluster: Cluster) -> None:
    """Create the topics; retry while the controller has not yet seen the last broker that is ready."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({**cluster.client, "log_level": 0})
    for topic in (TOPIC, COPIES):
        end = time.monotonic() + CREATE_S
        while True:
            try:
                admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(CREATE_S)
                break
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    break
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
    _commit_beginning(cluster)


def _commit_beginning(cluster: Cluster) -> None:
    """Commit an offset for every partition of the copiers' group, so that a lost one is noticed."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({**cluster.client, "group.id": GROUP, "log_level": 0})
    end = time.monotonic() + CREATE_S
    while True:
        try:
            positions = [TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)]
            if all(each.error is None for each in consumer.commit(offsets=positions, asynchronous=False)):
                break
        except KafkaException:
            if time.monotonic() > end:
                raise
        time.sleep(0.2)
    consumer.close()


def run_once(options: Options, home: Path) -> dict[str, Any]:
    """Run once in an empty directory; return the result. ``anomalies`` is empty if all is well."""
    home.mkdir(parents=True, exist_ok=True)
    run, started = Run(options, home), time.monotonic()
    run.run()
    return {
        "store": options.store,
        "seed": options.seed,
        "secured": options.secured,
        "seconds": options.seconds,
        "namespaces": options.namespaces,
        "took_s": round(time.monotonic() - started),
        "faults": dict(sorted(run.faults.items())),
        **run.summary,
        "history": str(home / "history.jsonl"),
        "anomalies": run.wrong,
    }


def main() -> int:
    """The command line; 1 if a run has anomalies."""
    parser = campaign_parser("chaos", __doc__)
    parser.add_argument("--store", choices=("embedded", "zookeeper"), default="embedded")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each further run has the next")
    parser.add_argument("--rate", type=float, default=135.0, help="records a second outside transactions")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--no-namespaces", action="store_true", help="run on loopback, without network partitions")
    parser.add_argument(
        "--secured", action="store_true", help="SASL_SSL for clients and brokers, ACLs, quotas; TLS for ZooKeeper"
    )
    parser.add_argument("--share", action="store_true", help="with a share group, too (not with --secured)")
    parser.add_argument("--home", type=Path, help="where data and histories go")
    parser.add_argument("--keep", action="store_true", help="keep the data of runs without anomalies")
    arguments = parser.parse_args()
    if not arguments.no_namespaces and (why := network.why_unavailable()) is not None:
        print(f"{why}; --no-namespaces runs without network partitions", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave no namespaces behind
    home = arguments.home or Path(tempfile.mkdtemp(prefix="chaos-"))
    failed = False
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        options = Options(
            arguments.store,
            arguments.seconds,
            seed,
            arguments.rate,
            namespaces=not arguments.no_namespaces,
            secured=arguments.secured,
            share=arguments.share,
        )
        place = home / f"{arguments.store}-{seed}"
        result = run_once(options, place)
        result["anomalies"], rest = result["anomalies"][:20], len(result["anomalies"]) - 20
        print(json.dumps({**result, "more_anomalies": max(0, rest)}), flush=True)
        failed = failed or bool(result["anomalies"])
        if not result["anomalies"] and not arguments.keep:
            for each in place.iterdir():
                if each.is_dir():
                    shutil.rmtree(each)
                elif each.name != "history.jsonl":
                    each.unlink()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
