"""Run the order pipeline from end to end and check its result: the main job of this project, in one command.

    python -m examples.spark_orders.demo [--orders 1000000] [--bootstrap HOST:PORT] [--report REPORT.html]

Starts a broker (unless given one) and a producer that writes orders all the while; starts the Spark job, kills it with
SIGKILL when it has done 40 % and starts it again from its checkpoints; kills the broker, if it is its own, at 70 % and
starts it again. Then `kwire audit` compares the orders with what came out, in a topic and in Parquet, and follows what
the producer has sent; the totals are compared with what a plain loop over the same orders finds. Ends with status 0
only if all of it is exactly equal.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from examples.spark_orders import orders
from examples.spark_orders.pipeline import TABLE

PARTITIONS = 4
KILL_AT = 0.4
KILL_BROKER_AT = 0.7
FIELDS = ("customer_id", "amount_cents", "time_ms")
"""What the pipeline hands on of an order, beside its id."""


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.spark_orders.demo", description="The order pipeline, checked."
    )
    parser.add_argument("--orders", type=int, default=1_000_000, help="how many orders (default one million)")
    parser.add_argument("--rate", type=int, default=25_000, help="orders a second that the producer writes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap", help="a broker that is running; without it one is started for the run")
    parser.add_argument("--report", metavar="FILE", help="write the audit's report about the orders, as a page")
    parser.add_argument("--keep", action="store_true", help="keep the working directory")
    options = parser.parse_args(arguments)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        print("Spark needs Java 17 or later: no `java` on the PATH and no JAVA_HOME", file=sys.stderr)
        return 2
    directory = tempfile.mkdtemp(prefix="kwire-orders-")
    try:
        with ExitStack() as stack:
            own = None if options.bootstrap else stack.enter_context(broker(os.path.join(directory, "data")))
            return run(own.bootstrap if own else options.bootstrap, own, directory, options)
    finally:
        if options.keep:
            say(f"kept {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def run(bootstrap: str, own: OwnBroker | None, directory: str, options: argparse.Namespace) -> int:
    """The run itself on a broker that is there; ``own``: it may be killed. Returns the exit status."""
    suffix = f"{options.seed}-{os.getpid()}"
    names = {"orders": "orders", "customers": "customers", "enriched": "orders-enriched", "totals": "order-totals"}
    topics = {name: f"{topic}-{suffix}" for name, topic in names.items()}
    prepare_topics(bootstrap, topics)
    started = time.monotonic()
    common = ["--bootstrap", bootstrap]
    writing = ["--topic", topics["orders"], "--count", str(options.orders), "--rate", str(options.rate)]
    writing += ["--seed", str(options.seed)]
    producer = subprocess.Popen([sys.executable, "-m", "examples.spark_orders.producer", *common, *writing])
    job = [sys.executable, "-m", "examples.spark_orders.pipeline", *common, "--directory", directory]
    job += ["--count", str(options.orders), "--per-trigger", str(max(options.orders // 10, 1_000))]
    job += [word for name, topic in topics.items() for word in (f"--{name}", topic)]
    try:
        say(f"broker {bootstrap}: producer writes {options.orders:,} orders, {options.rate:,} a second")
        stopped_at = run_job(job, directory, options.orders, kill_at=int(options.orders * KILL_AT))
        say(f"Spark killed with SIGKILL after {stopped_at:,} orders; starting it again from its checkpoints")
        restart = None if own is None else Moment(int(options.orders * KILL_BROKER_AT), own.kill_and_start)
        result = run_job(job, directory, options.orders, kill_at=None, moment=restart)
        if producer.wait(600) != 0:
            say("the producer failed")
            return 1
    finally:
        if producer.poll() is None:
            producer.kill()
            producer.wait()
    say(f"all orders processed after {time.monotonic() - started:.0f} s; auditing, and comparing with a plain loop")
    audited = audit(bootstrap, topics, directory, options)
    return compare(result, read_totals(bootstrap, topics["totals"]), audited, options)


def audit(bootstrap: str, topics: dict[str, str], directory: str, options: argparse.Namespace) -> dict[str, bool]:
    """What `kwire audit` finds: whether each comparison is equal, by what is compared."""
    same_names = ["--identity", "$.order_id", *(word for field in FIELDS for word in ("--compare", f"$.{field}"))]
    columns = ["--identity", "$.order_id=order_id"]
    columns += [word for field in FIELDS for word in ("--compare", f"$.{field}={field}")]
    report = ["--html", os.path.abspath(options.report)] if options.report else []
    source = topics["orders"]
    comparisons = {
        "audit of the orders and the topic of enriched ones": [source, topics["enriched"], *same_names, *report],
        "audit of the orders and Parquet": [source, f"parquet:{directory}/{TABLE}", *columns],
        "audit of what the producer has sent": [source, "--producers", "--expect", str(options.orders)],
    }
    common = [sys.executable, "-m", "kwire", "audit", "--quiet", "--bootstrap-server", bootstrap]
    found = {}
    for what, arguments in comparisons.items():
        done = subprocess.run([*common, *arguments], capture_output=True, text=True, check=False)
        found[what] = done.returncode == 0
        if done.returncode:
            say(f"{done.stdout}{done.stderr}")
    return found


class Moment(NamedTuple):
    """Something to do once so many orders are done."""

    orders: int
    action: Callable[[], None]


def run_job(
    command: list[str], directory: str, count: int, *, kill_at: int | None, moment: Moment | None = None
) -> Any:
    """Run the Spark job in a directory (Spark leaves things there), showing its progress.

    With ``kill_at``: kill it (with its JVM) once it has done as many orders, and return how many; otherwise return its
    result.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=directory
    )
    assert process.stdout is not None
    assert process.stderr is not None
    result: Any = None
    with drained(process) as errors:
        for line in process.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "progress":
                say(f"  Spark: {event['orders']:>9,} of {count:,} orders", end="\r" if sys.stderr.isatty() else "\n")
                if moment is not None and event["orders"] >= moment.orders:
                    moment.action()
                    moment = None
                if kill_at is not None and event["orders"] >= kill_at:
                    result = event["orders"]
                    break
            elif event.get("event") == "result":
                result = event
        if kill_at is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    if result is None or (kill_at is None and status != 0):
        raise SystemExit(f"the Spark job ended with status {status}:\n{''.join(errors[-40:])}")
    return result


@contextmanager
def drained(process: subprocess.Popen[str]) -> Iterator[list[str]]:
    """Collect what a process writes to standard error, so that it never waits for a reader."""
    import threading

    lines: list[str] = []
    assert process.stderr is not None
    thread = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        thread.join(10)


class OwnBroker:
    """A kwire process for the run. ``bootstrap``: its address, which it keeps."""

    def __init__(self, data_dir: str) -> None:
        self._data_dir = data_dir
        self.bootstrap = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        command = [sys.executable, "-m", "kwire", "start", "--listen", self.bootstrap, "--data-dir", self._data_dir]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("kwire ready "):
            raise SystemExit(f"the broker did not start (status {self.process.wait()})")
        self.bootstrap = dict(word.split("=", 1) for word in line.split()[2:])["bootstrap"]

    def kill_and_start(self) -> None:
        """Kill it with SIGKILL and start it again on the same port."""
        self.process.kill()
        self.process.wait()
        self.start()
        say("broker killed with SIGKILL and started again")


@contextmanager
def broker(data_dir: str) -> Iterator[OwnBroker]:
    """A broker for the run."""
    own = OwnBroker(data_dir)
    try:
        yield own
    finally:
        own.process.terminate()
        own.process.wait(30)


def prepare_topics(bootstrap: str, topics: dict[str, str]) -> None:
    """Create the topics of a run and write the customers."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    keep = {"retention.ms": "-1"}  # the orders carry the times of the past: retention would delete them at once
    wanted = [NewTopic(topics["orders"], PARTITIONS, 1, config=keep), NewTopic(topics["customers"], 1, 1)]
    wanted.append(NewTopic(topics["enriched"], PARTITIONS, 1, config=keep))
    wanted.append(NewTopic(topics["totals"], 1, 1, config={"cleanup.policy": "compact"}))
    for future in admin.create_topics(wanted).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in orders.customers():
        producer.produce(topics["customers"], key=key, value=value)
    if producer.flush(60):
        raise SystemExit("the customers were not acknowledged")


def read_totals(bootstrap: str, topic: str) -> dict[str, list[int]]:
    """The last record of every key of the totals topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-check", "enable.auto.commit": False})
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([partition])
        totals: dict[str, list[int]] = {}
        position = 0
        while position < end:
            message = consumer.poll(30)
            if message is None or message.error():
                raise SystemExit(f"could not read {topic} at {position} of {end}: {message and message.error()}")
            value = json.loads(message.value() or b"{}")
            totals[(message.key() or b"").decode()] = [value["orders"], value["amount_cents"]]
            position = (message.offset() or 0) + 1
        return totals
    finally:
        consumer.close()


def compare(
    result: dict[str, Any], totals: dict[str, list[int]], audited: dict[str, bool], options: argparse.Namespace
) -> int:
    """Print what was found beside what is right; 0 if all of it is equal."""
    right = {
        f"{window}|{region}": [total.orders, total.amount_cents]
        for (window, region), total in orders.expected_totals(options.seed, options.orders).items()
    }
    checks = {
        f"Parquet rows: {result['rows']:,}": result["rows"] == options.orders,
        f"distinct orders in Parquet: {result['distinct']:,}": result["distinct"] == options.orders,
        f"totals from Parquet: {len(result['totals'])} hours x regions": result["totals"] == right,
        f"totals in the topic: {len(totals)} hours x regions": totals == right,
        **audited,
    }
    for what, holds in checks.items():
        say(f"{'equal' if holds else 'DIFFERENT':9}  {what}")
    return 0 if all(checks.values()) else 1


def say(line: str, end: str = "\n") -> None:
    """Progress, for people."""
    print(line, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
