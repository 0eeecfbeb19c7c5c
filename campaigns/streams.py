"""Kill a Kafka Streams application with exactly_once_v2, and its broker, while it counts: the results must be exact.

    .venv/bin/python -m campaigns.streams --words 100000 --seed 1 --instances 2
    .venv/bin/python -m campaigns.streams --words 100000 --seed 1 --brokers 3

`campaigns/java/WordsApplication.java` counts words and each user's sessions while words come in. Its processes and the
broker are killed with SIGKILL at random moments and started again on their data. In the end

- a read_committed consumer has seen every word counted 1, 2, 3, ... to its last count, each step once;
- the last counts of the sessions are those of a plain loop;
- the tables, queried over the application's HTTP interface, have the same values. During the run no count is too high.

With ``--group-protocol streams`` the threads are members of a streams group (KIP-1071), otherwise of a classic one.
With ``--brokers 3`` there is a cluster: each kill hits the broker that leads most partitions, which comes back after a
while. Progress goes to standard error, then a line of JSON is printed. The exit status is 1 if anything differs.
``--broker kafka`` runs the same campaign against Apache Kafka.
"""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.command_line import campaign_parser
from harness.kafka_jars import compile_java, java_command, streams_classpath
from harness.optional import present
from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.processes.kwire_cluster import KwireCluster

SOURCE = ROOT / "campaigns" / "java" / "WordsApplication.java"
PARTITIONS = 2
USERS = 20
VOCABULARY = 200
GAP_MS = 200
DEAD_S = 5.0
"""How long a cluster is without a killed broker."""
BETWEEN_MS = 10
"""Time between words: a user's words are 200 ms apart on average, which gives sessions of all sizes."""


@dataclass(frozen=True)
class Plan:
    """How many words are counted, by how many processes, and how often each kind of process is killed."""

    words: int = 100_000
    seed: int = 1
    instances: int = 1
    application_kills: int = 6
    broker_kills: int = 4
    session_timeout_ms: int = 6000
    stall_s: float = 240.0
    brokers: int = 1
    group_protocol: str = "classic"
    properties: tuple[str, ...] = ()
    """Properties of Streams, as name=value."""


class Word(NamedTuple):
    """One word of a user, as it is sent: its timestamp in milliseconds and its partition."""

    user: str
    word: str
    timestamp_ms: int
    partition: int


class Expected:
    """The results that a plain loop computes from the words."""

    def __init__(self, words: Sequence[Word]) -> None:
        self.counts = Counter(word.word for word in words)
        self.sessions: dict[str, int] = {}
        spans: dict[str, tuple[int, int, int]] = {}
        for word in words:
            start, end, count = spans.get(word.user, (0, 0, 0))
            if count and word.timestamp_ms - end <= GAP_MS:
                spans[word.user] = (start, word.timestamp_ms, count + 1)
                continue
            self._keep(word.user, start, end, count)
            spans[word.user] = (word.timestamp_ms, word.timestamp_ms, 1)
        for user, span in spans.items():
            self._keep(user, *span)

    def _keep(self, user: str, start: int, end: int, count: int) -> None:
        if count:
            self.sessions[f"{user}@{start}-{end}"] = count


def draw_words(seed: int, count: int, base_ms: int) -> list[Word]:
    """The words of a seed, with timestamps from ``base_ms`` on."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        user = chance.randrange(USERS)
        word = min(int(chance.expovariate(0.03)), VOCABULARY - 1)
        found.append(Word(f"user-{user}", f"word-{word}", base_ms + number * BETWEEN_MS, user % PARTITIONS))
    return found


class Application:
    """A process of the application. It is started again whenever it has ended."""

    def __init__(self, broker: Broker | KwireCluster, home: Path, plan: Plan) -> None:
        classes = compile_java([SOURCE], streams_classpath)
        timeout = plan.session_timeout_ms
        settings = [f"group.protocol={plan.group_protocol}", "num.stream.threads=2", *plan.properties]
        if plan.group_protocol == "classic":
            settings.append(f"main.consumer.session.timeout.ms={timeout}")
            settings.append(f"main.consumer.heartbeat.interval.ms={timeout // 4}")
        self._state = home / "state"
        where = [broker.bootstrap, str(self._state), str(GAP_MS)]
        self._command = java_command(
            "-cp", f"{streams_classpath()}:{classes}", "WordsApplication", *where, *settings, heap="384m"
        )
        self.log = home / "application.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        home.mkdir(parents=True)

    def keep_running(self) -> None:
        """Start the process, unless it runs."""
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            (self._state / "port").unlink(missing_ok=True)
            with open(self.log, "ab") as log:
                self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Send SIGKILL to the process, if there is one, and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def query(self, path: str) -> dict[str, int] | None:
        """A table's content by key; None if it cannot be queried now."""
        try:
            port = (self._state / "port").read_text()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20) as answer:
                text = answer.read().decode()
        except (OSError, urllib.error.URLError):
            return None
        pairs = (line.split("\t") for line in text.splitlines())
        return {key: int(value) for key, value in pairs if value != "null"}


class Results:
    """The results as a read_committed consumer has seen them."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "results",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        topics = ("counts", "sessions")
        self._consumer.assign([TopicPartition(topic, index, 0) for topic in topics for index in range(PARTITIONS)])
        self.counts: Counter[str] = Counter()
        self.sessions: dict[str, int] = {}
        self.problems: list[str] = []

    def look(self) -> int:
        """Read new results; return how many words are counted in all."""
        for record in self._consumer.consume(5000, 0.1):
            if record.error() is None:
                key, value = present(record.key()).decode(), record.value()
                self._take(present(record.topic()), key, None if value is None else struct.unpack(">q", value)[0])
        return self.counts.total()

    def _take(self, topic: str, key: str, count: int | None) -> None:
        if topic == "sessions":
            if count is None:
                self.sessions.pop(key, None)
            else:
                self.sessions[key] = count
            return
        self.counts[key] += 1
        if count != self.counts[key]:
            self.problems.append(f"{key} counted {count} where {self.counts[key]} comes next")

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def _streams_groups(session_timeout_ms: int) -> dict[str, str]:
    """The broker's properties for streams groups: their members cannot choose their timeouts."""
    timeouts = {"session.timeout": session_timeout_ms, "heartbeat.interval": session_timeout_ms // 4}
    found = {"group.streams.initial.rebalance.delay.ms": "500"}
    for name, value in timeouts.items():
        found[f"group.streams.{name}.ms"] = found[f"group.streams.min.{name}.ms"] = str(value)
    return found


class Campaign:
    """One run on a broker of its own."""

    def __init__(self, home: Path, kind: str, plan: Plan) -> None:
        self.plan = plan
        self.home = home
        self.chance = random.Random(plan.seed)
        settings = {"auto.create.topics.enable": "false"}
        if plan.group_protocol == "streams":
            settings |= _streams_groups(plan.session_timeout_ms)
        self.broker: Broker | KwireCluster
        if plan.brokers > 1:
            self.broker = KwireCluster(home / "brokers", settings, count=plan.brokers)
        else:
            self.broker = make_broker(kind, home / "broker", settings)
        self.words = draw_words(plan.seed, plan.words, int(time.time() * 1000) - plan.words * BETWEEN_MS)
        self.expected = Expected(self.words)
        victims = ["application"] * plan.application_kills + ["broker"] * plan.broker_kills
        self.chance.shuffle(victims)
        self._kills = sorted(zip((self.chance.randrange(plan.words * 4 // 5) for _ in victims), victims, strict=True))
        self.kills: Counter[str] = Counter()
        self.queries = 0
        self.problems: list[str] = []
        self.sent = 0

    def run(self) -> dict[str, Any]:
        """Run the campaign; return the result, with at most 20 ``problems``."""
        started = time.monotonic()
        self.broker.start()
        applications: list[Application] = []
        try:
            self._create_topics()
            applications += [
                Application(self.broker, self.home / f"application-{number}", self.plan)
                for number in range(self.plan.instances)
            ]
            results = Results(self.broker.bootstrap)
            self._count(applications, results)
            self._compare(applications, results)
            results.close()
            starts = [application.starts for application in applications]
        finally:
            for application in applications:
                application.kill()
            self.broker.kill()
        return {
            "broker": self.broker.kind,
            "seed": self.plan.seed,
            "words": self.plan.words,
            "brokers": self.plan.brokers,
            "instances": self.plan.instances,
            "group_protocol": self.plan.group_protocol,
            "application_kills": self.kills["application"],
            "broker_kills": self.kills["broker"],
            "starts": starts,
            "queries_answered": self.queries,
            "sessions": len(self.expected.sessions),
            "took_s": round(time.monotonic() - started, 1),
            "problems": self.problems[:20],
        }

    def _create_topics(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        names = ("words", "counts", "sessions")
        for future in admin.create_topics(
            [NewTopic(name, PARTITIONS, min(self.plan.brokers, 3)) for name in names]
        ).values():
            future.result(30)

    def _count(self, applications: list[Application], results: Results) -> None:
        """Send words as others are counted, so that a kill always interrupts some work."""
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        ahead = max(self.plan.words // 10, 500)
        seen, moved, printed_s = 0, time.monotonic(), time.monotonic()
        while seen < self.plan.words:
            for application in applications:
                application.keep_running()
            self._send(producer, seen + ahead)
            before, seen = seen, results.look()
            now = time.monotonic()
            if seen > before:
                moved = now
            elif now - moved > self.plan.stall_s:
                self.problems.append(f"no word counted for {self.plan.stall_s} s, {seen} before")
                break
            self._kill_as_planned(applications, seen)
            if now - printed_s > 5:
                printed_s = now
                self._look_at_tables(applications)
                print(f"{self.sent} sent, {seen} counted, killed {dict(self.kills)}", file=sys.stderr, flush=True)
        producer.flush(30)

    def _send(self, producer: Any, up_to: int) -> None:
        for word in self.words[self.sent : up_to]:
            producer.produce("words", word.word, word.user, word.partition, timestamp=word.timestamp_ms)
            self.sent += 1
        producer.poll(0)

    def _kill_as_planned(self, applications: list[Application], seen: int) -> None:
        if self._kills and seen >= self._kills[0][0]:
            _, victim = self._kills.pop(0)
            time.sleep(self.chance.random() * 0.5)
            self.kills[victim] += 1
            if victim == "application":
                self.chance.choice(applications).kill()
                return
            if isinstance(self.broker, KwireCluster):
                self.broker.kill_busiest()
                time.sleep(DEAD_S)
            else:
                self.broker.kill()
            self.broker.start()

    def _look_at_tables(self, applications: list[Application]) -> None:
        """Check that no count in a table is higher than its final value."""
        for application in applications:
            counts = application.query("counts")
            if counts is not None:
                self.queries += 1
                self.problems += [
                    f"a table says {count} of {word}"
                    for word, count in counts.items()
                    if count > self.expected.counts[word]
                ]

    def _compare(self, applications: list[Application], results: Results) -> None:
        def are_complete() -> bool:
            results.look()
            return (results.counts, results.sessions) == (self.expected.counts, self.expected.sessions)

        with suppress(TimeoutError):  # what differs is said below
            wait_until(are_complete, 60, "the results")
        end = time.monotonic() + 3  # none may follow
        while time.monotonic() < end:
            results.look()
        self.problems += results.problems
        if results.counts != self.expected.counts:
            self.problems.append("the counts are not those of the loop")
        if results.sessions != self.expected.sessions:
            differing = set(results.sessions.items()) ^ set(self.expected.sessions.items())
            self.problems.append(f"the sessions are not those of the loop: {sorted(differing)[:4]}")
        try:
            wait_until(lambda: self._tables(applications, "counts") == self.expected.counts, 90, "the table", 0.5)
            for user in range(USERS):
                wait_until(lambda user=user: self._has_sessions(applications, f"user-{user}"), 60, "sessions", 0.5)  # type: ignore[misc]
        except TimeoutError as error:
            self.problems.append(f"queried: {error}")

    def _tables(self, applications: list[Application], path: str) -> dict[str, int]:
        """The tables of all instances together. Each instance has a part of them; one that has none does not answer."""
        found: Counter[str] = Counter()
        for application in applications:
            application.keep_running()
            answer = application.query(path)
            if answer is not None:
                self.queries += 1
                found.update(answer)
        return found

    def _has_sessions(self, applications: list[Application], user: str) -> bool:
        wanted = {key.split("@")[1]: n for key, n in self.expected.sessions.items() if key.startswith(f"{user}@")}
        return self._tables(applications, f"sessions/{user}") == wanted


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 if a result differs."""
    parser = campaign_parser("streams", __doc__)
    parser.add_argument("--words", type=int, default=Plan.words)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--instances", type=int, default=Plan.instances)
    parser.add_argument("--application-kills", type=int, default=Plan.application_kills)
    parser.add_argument("--broker-kills", type=int, default=Plan.broker_kills)
    parser.add_argument("--brokers", type=int, default=Plan.brokers)
    parser.add_argument("--group-protocol", choices=("classic", "streams"), default=Plan.group_protocol)
    parser.add_argument("--property", action="append", default=[], help="a property of Streams: NAME=VALUE")
    parser.add_argument("--broker", choices=("kwire", "kafka"), default="kwire")
    parser.add_argument("--home", type=Path, help="where data and logs are kept")
    options = parser.parse_args(arguments)
    plan = Plan(
        options.words,
        options.seed,
        options.instances,
        options.application_kills,
        options.broker_kills,
        brokers=options.brokers,
        group_protocol=options.group_protocol,
        properties=tuple(options.property),
    )
    home = options.home or Path(tempfile.mkdtemp(prefix="streams-campaign-"))
    result = Campaign(home, options.broker, plan).run()
    print(json.dumps(result), flush=True)
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
