"""A Kafka Streams application with exactly_once_v2, and the broker, killed while it counts: its results are exact.

    .venv/bin/python campaigns/streams.py --words 100000 --seed 1 --instances 2
    .venv/bin/python campaigns/streams.py --words 100000 --seed 1 --brokers 3

`campaigns/java/WordsApplication.java` counts words and each user's sessions while words come in. Its processes
and the broker are killed with SIGKILL at random moments and started again on what they had. In the end

- a read_committed consumer has seen every word counted 1, 2, 3, ... to its end, each step once;
- the last counts of sessions are those of a plain loop;
- the tables, queried over the application's own HTTP, say the same. While it runs they never say too much.

With ``--brokers 3`` it is a cluster: always the broker that leads most is killed, and comes back after a while. Prints
what is going on and a line of JSON; ends with status 1 if anything differs. With ``--broker kafka`` Apache Kafka is put
to the same.
"""

from __future__ import annotations

import argparse
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from harness.kafka_jars import compile_java, java_command, streams_classpath
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.processes.kwire_cluster import KwireCluster

SOURCE = ROOT / "campaigns" / "java" / "WordsApplication.java"
PARTITIONS = 2
USERS = 20
VOCABULARY = 200
GAP_MS = 200
DEAD_S = 5.0
"""How long a cluster is without the broker that was killed."""
BETWEEN_MS = 10
"""From one word to the next: a user's words are 200 ms apart on average, which makes sessions of all sizes."""


@dataclass(frozen=True)
class Plan:
    """How much is counted, by how many processes, and how often who is killed."""

    words: int = 100_000
    seed: int = 1
    instances: int = 1
    application_kills: int = 6
    broker_kills: int = 4
    session_timeout_ms: int = 6000
    stall_s: float = 240.0
    brokers: int = 1
    properties: tuple[str, ...] = ()
    """Of Streams, as name=value."""


class Word(NamedTuple):
    user: str
    word: str
    timestamp_ms: int
    partition: int


class Expected:
    """What a plain loop makes of the words."""

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
    """The same words for a seed; only their time begins at ``base_ms``."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        user = chance.randrange(USERS)
        word = min(int(chance.expovariate(0.03)), VOCABULARY - 1)
        found.append(Word(f"user-{user}", f"word-{word}", base_ms + number * BETWEEN_MS, user % PARTITIONS))
    return found


class Application:
    """A process of the application; started anew whenever it is gone."""

    def __init__(self, broker: Broker | KwireCluster, home: Path, plan: Plan) -> None:
        classes = compile_java([SOURCE], streams_classpath)
        timeout = plan.session_timeout_ms
        settings = [f"main.consumer.session.timeout.ms={timeout}"]
        settings += [f"main.consumer.heartbeat.interval.ms={timeout // 4}", "num.stream.threads=2", *plan.properties]
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
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            (self._state / "port").unlink(missing_ok=True)
            with open(self.log, "ab") as log:
                self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def query(self, path: str) -> dict[str, int] | None:
        """A table's content by key; None when it cannot be answered now."""
        try:
            port = (self._state / "port").read_text()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20) as answer:
                text = answer.read().decode()
        except (OSError, urllib.error.URLError):
            return None
        pairs = (line.split("\t") for line in text.splitlines())
        return {key: int(value) for key, value in pairs if value != "null"}


class Results:
    """What a read_committed consumer has seen of the results."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "results", "isolation.level": "read_committed",
            "enable.auto.commit": False, "reconnect.backoff.max.ms": 500, "log_level": 0,
        })  # fmt: skip
        topics = ("counts", "sessions")
        self._consumer.assign([TopicPartition(topic, index, 0) for topic in topics for index in range(PARTITIONS)])
        self.counts: Counter[str] = Counter()
        self.sessions: dict[str, int] = {}
        self.problems: list[str] = []

    def look(self) -> int:
        """How many words are counted."""
        for record in self._consumer.consume(5000, 0.1):
            if record.error() is None:
                key, value = record.key().decode(), record.value()
                self._take(record.topic(), key, None if value is None else struct.unpack(">q", value)[0])
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
        self._consumer.close()


class Campaign:
    """One run on a broker of its own."""

    def __init__(self, home: Path, kind: str, plan: Plan) -> None:
        self.plan = plan
        self.home = home
        self.chance = random.Random(plan.seed)
        settings = {"auto.create.topics.enable": "false"}
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
            "broker": self.broker.kind, "seed": self.plan.seed, "words": self.plan.words,
            "brokers": self.plan.brokers, "instances": self.plan.instances,
            "application_kills": self.kills["application"], "broker_kills": self.kills["broker"],
            "starts": starts, "queries_answered": self.queries,
            "sessions": len(self.expected.sessions), "took_s": round(time.monotonic() - started, 1),
            "problems": self.problems[:20],
        }  # fmt: skip

    def _create_topics(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        names = ("words", "counts", "sessions")
        for future in admin.create_topics(
            [NewTopic(name, PARTITIONS, min(self.plan.brokers, 3)) for name in names]
        ).values():
            future.result(30)

    def _count(self, applications: list[Application], results: Results) -> None:
        """Words come in as they are counted, so that there is always work when somebody is killed."""
        from confluent_kafka import Producer

        producer = Producer({
            "bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True, "linger.ms": 5,
            "reconnect.backoff.max.ms": 500, "log_level": 0,
        })  # fmt: skip
        ahead = max(self.plan.words // 10, 500)
        seen, moved, told = 0, time.monotonic(), time.monotonic()
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
            if now - told > 5:
                told = now
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
        """No table may tell more than there will ever be."""
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
        end = time.monotonic() + 3
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
        """What all instances have, each its part."""
        found: Counter[str] = Counter()
        for application in applications:
            application.keep_running()
            answer = application.query(path)
            if answer is None:
                return {}
            self.queries += 1
            found.update(answer)
        return found

    def _has_sessions(self, applications: list[Application], user: str) -> bool:
        wanted = {key.split("@")[1]: n for key, n in self.expected.sessions.items() if key.startswith(f"{user}@")}
        return self._tables(applications, f"sessions/{user}") == wanted


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=Plan.words)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--instances", type=int, default=Plan.instances)
    parser.add_argument("--application-kills", type=int, default=Plan.application_kills)
    parser.add_argument("--broker-kills", type=int, default=Plan.broker_kills)
    parser.add_argument("--brokers", type=int, default=Plan.brokers)
    parser.add_argument("--property", action="append", default=[], help="of Streams: NAME=VALUE")
    parser.add_argument("--broker", choices=("kwire", "kafka"), default="kwire")
    parser.add_argument("--home", type=Path, help="where data and logs are kept")
    options = parser.parse_args(arguments)
    plan = Plan(
        options.words, options.seed, options.instances, options.application_kills, options.broker_kills,
        brokers=options.brokers, properties=tuple(options.property),
    )  # fmt: skip
    home = options.home or Path(tempfile.mkdtemp(prefix="streams-campaign-"))
    result = Campaign(home, options.broker, plan).run()
    print(json.dumps(result), flush=True)
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
