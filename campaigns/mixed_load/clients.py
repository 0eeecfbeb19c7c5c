"""`Load`: the clients of the campaign of mixed load, each a thread that begins, works and ends."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from harness.inspection.hanging import report
from harness.processes.secured import SecuredBroker
from harness.wire_client import WireClient
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch

STEADY, PROBED, TRANSACTED = "steady", "probed", "transacted"
GROUPS: Final = 10
PROBE_S: Final = 0.02
CALL_S: Final = 60.0
"""What a call may take: init_transactions, the end of a transaction, a topic's creation or deletion, a flush."""

STEP_S_MAX: Final = 4 * CALL_S
"""Within this, a client does its next step, or ends. A step has two calls at most (a topic's creation and deletion);
librdkafka gives a consumer's last commit 60 s, too, and then LeaveGroup 5."""

LOOK_S: Final = 1.0


class Load:
    """The clients, until `stop`. ``done`` counts what they did; ``failures`` what must not happen; ``longest_s`` how
    long each took for a step, or to end: librdkafka repeats a request without a response after a minute."""

    def __init__(self, broker: SecuredBroker, step_s_max: float = STEP_S_MAX, debug: str = "") -> None:
        self._broker = broker
        self._step_s_max = step_s_max
        self._debug = debug
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._stepped_s: dict[str, float] = {}
        self._hanging: set[threading.Thread] = set()
        self._numbers = itertools.count()
        self.done: Counter[str] = Counter()
        self.latencies_s: list[tuple[float, float]] = []
        self.failures: list[str] = []
        self.longest_s: dict[str, float] = {}

    def work(self) -> dict[str, Callable[[], None]]:
        """The clients' names, and what each does."""
        return {
            "producer": lambda: self._produce(tls=False),
            "producer-tls": lambda: self._produce(tls=True),
            "reader": lambda: self._follow("readers", tls=False),
            "reader-tls": lambda: self._follow("readers", tls=True),
            "reader-committed": lambda: self._follow("committed", tls=False, topic=TRANSACTED, committed=True),
            "member": self._join_and_leave,
            "transactions": lambda: self._transact("plain", tls=False),
            "transactions-tls": lambda: self._transact("secured", tls=True),
            "topics": self._make_and_delete,
            "probe": self._probe,
        }

    def start(self) -> None:
        """Begin with all of the work."""
        self._stopped.clear()
        self._threads = [
            threading.Thread(target=self._guarded, args=(each,), name=name, daemon=True)
            for name, each in self.work().items()
        ]
        self._stepped_s = {thread.name: time.monotonic() for thread in self._threads}
        for thread in self._threads:
            thread.start()

    def work_for(self, seconds: float) -> None:
        """Let the clients work. One that does not go on is reported at once: hours later, what it waited for may be
        gone."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, LOOK_S))
            self._look()

    def stop(self) -> None:
        """End all clients. One that does not end is a failure, and stays behind."""
        self._stopped.set()
        for thread in self._threads:
            while thread.is_alive() and thread not in self._hanging:
                thread.join(min(LOOK_S, self._step_s_max))
                self._look()

    def _look(self) -> None:
        """Report clients that have not done a step for too long."""
        now_s = time.monotonic()
        found = [
            thread
            for thread in self._threads
            if thread.is_alive()
            and thread not in self._hanging
            and now_s - self._stepped_s[thread.name] > self._step_s_max
        ]
        if not found:
            return
        self._hanging.update(found)
        names = ", ".join(thread.name for thread in found)
        phase = "ending" if self._stopped.is_set() else "working"
        self._fail(f"no next step for {self._step_s_max:g} s, {phase}: {names}")
        print(report(self._broker), file=sys.stderr, flush=True)

    def _fail(self, failure: str) -> None:
        """Note a failure, and write it at once: the run may have hours to go."""
        self.failures.append(failure)
        print(time.strftime("%H:%M:%S"), failure, file=sys.stderr, flush=True)

    def _step(self) -> None:
        """The client of this thread goes on."""
        name, now_s = threading.current_thread().name, time.monotonic()
        took_s = round(now_s - self._stepped_s[name], 2)
        self.longest_s[name] = max(self.longest_s.get(name, 0.0), took_s)
        self._stepped_s[name] = now_s

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._fail(f"{threading.current_thread().name}: {error!r}")
        self._step()

    def _options(self, tls: bool, **options: Any) -> dict[str, Any]:
        common = {
            "bootstrap.servers": self._broker.address("SSL" if tls else "PLAINTEXT"),
            "client.id": threading.current_thread().name,
            "log_level": 7 if self._debug else 0,
        }
        if self._debug:
            common["debug"] = self._debug
        if tls:
            common |= {"security.protocol": "SSL", "enable.ssl.certificate.verification": False}
        return {**common, **{name.replace("_", "."): value for name, value in options.items()}}

    def _produce(self, tls: bool) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._options(tls, compression_type="zstd" if tls else "lz4", linger_ms=5))
        value = bytes(range(256))
        while not self._stopped.wait(0.05):
            for _ in range(10):
                producer.produce(STEADY, value, callback=self._delivered)
            producer.poll(0)
            self._step()
        producer.flush(CALL_S)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._fail(f"a record was not accepted: {error}")
        self.done["records"] += 1

    def _follow(self, group: str, tls: bool, topic: str = STEADY, committed: bool = False) -> None:
        with self._consumer(group, tls, topic, committed) as consumer:
            while not self._stopped.is_set():
                self.done["read"] += len(consumer.consume(500, 0.5))
                self._step()

    @contextmanager
    def _consumer(self, group: str, tls: bool, topic: str, committed: bool = False, **callbacks: Any) -> Iterator[Any]:
        from confluent_kafka import Consumer

        isolation = "read_committed" if committed else "read_uncommitted"
        options = self._options(tls, group_id=group, isolation_level=isolation, auto_offset_reset="latest")
        consumer = Consumer(options)
        consumer.subscribe([topic], **callbacks)
        try:
            yield consumer
        finally:
            consumer.close()

    def _join_and_leave(self) -> None:
        while not self._stopped.wait(0.2):
            number = next(self._numbers)
            with self._consumer(
                f"churn-{number % GROUPS}", tls=number % 2 == 0, topic=STEADY, on_assign=_begin_at_end
            ) as consumer:
                consumer.consume(50, 0.5)
            self.done["memberships"] += 1
            self._step()

    def _transact(self, name: str, tls: bool) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._options(tls, transactional_id=name))
        producer.init_transactions(CALL_S)
        for number in itertools.count():
            producer.begin_transaction()
            for _ in range(20):
                producer.produce(TRANSACTED, b"of a transaction")
            if number % 3:
                producer.commit_transaction(CALL_S)
            else:
                producer.abort_transaction(CALL_S)
            self.done["transactions"] += 1
            self._step()
            if self._stopped.wait(0.2):
                return

    def _make_and_delete(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(self._options(tls=True))
        while not self._stopped.wait(0.5):
            name = f"made-{next(self._numbers)}"
            admin.create_topics([NewTopic(name, 3, 1)])[name].result(CALL_S)
            admin.delete_topics([name])[name].result(CALL_S)
            self.done["topics"] += 1
            self._step()

    def _probe(self) -> None:
        with WireClient(self._broker.bootstrap, "probe") as client:
            request = probe_request()
            while not self._stopped.wait(PROBE_S):
                started = time.perf_counter()
                answer = client.call(request, 9).responses[0].partition_responses[0]
                self.latencies_s.append((started, time.perf_counter() - started))
                if answer.error_code:
                    self._fail(f"the probe got error {answer.error_code}")
                self._step()


def _begin_at_end(consumer: Any, partitions: list[Any]) -> None:
    """Ask for the committed offsets, but read from the end. These members read less than is written, so that retention
    would delete what their group goes on with; and librdkafka 2.16 waits for itself for ever if a Fetch response says
    OFFSET_OUT_OF_RANGE while a consumer is destroyed (its issue 4514). One of a few thousand members ended so."""
    from confluent_kafka import OFFSET_END

    consumer.committed(partitions, CALL_S)
    for partition in partitions:
        partition.offset = OFFSET_END
    consumer.assign(partitions)


def probe_request() -> ProduceRequest:
    """A Produce request with one record."""
    data = PartitionProduceData(index=0, records=build_batch([Record(timestamp=0, value=bytes(100))]))
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=PROBED, partition_data=[data])])
