"""Run the order pipeline from end to end and check its result: the main job of this project, in one command.

    python -m examples.spark_orders.demo [--orders 1000000] [--bootstrap HOST:PORT]

Starts a broker (unless given one) and a producer that writes orders all the while; starts the Spark job, kills it with
SIGKILL when it has done 40 % and starts it again from its checkpoints; then compares Parquet and the totals topic with
what a plain loop over the same orders finds. Ends with status 0 only if both are exactly equal.
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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from examples.spark_orders import orders

PARTITIONS = 4
KILL_AT = 0.4


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.spark_orders.demo", description="The order pipeline, checked."
    )
    parser.add_argument("--orders", type=int, default=1_000_000, help="how many orders (default one million)")
    parser.add_argument("--rate", type=int, default=25_000, help="orders a second that the producer writes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap", help="a broker that is running; without it one is started for the run")
    parser.add_argument("--keep", action="store_true", help="keep the working directory")
    options = parser.parse_args(arguments)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        print("Spark needs Java 17 or later: no `java` on the PATH and no JAVA_HOME", file=sys.stderr)
        return 2
    directory = tempfile.mkdtemp(prefix="kwire-orders-")
    try:
        with ExitStack() as stack:
            bootstrap = options.bootstrap or stack.enter_context(broker(os.path.join(directory, "data")))
            return run(bootstrap, directory, options)
    finally:
        if options.keep:
            say(f"kept {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def run(bootstrap: str, directory: str, options: argparse.Namespace) -> int:
    """The run itself on a broker that is there. Returns the exit status."""
    suffix = f"{options.seed}-{os.getpid()}"
    topics = {"orders": f"orders-{suffix}", "customers": f"customers-{suffix}", "totals": f"order-totals-{suffix}"}
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
        result = run_job(job, directory, options.orders, kill_at=None)
        if producer.wait(600) != 0:
            say("the producer failed")
            return 1
    finally:
        if producer.poll() is None:
            producer.kill()
            producer.wait()
    say(f"all orders processed after {time.monotonic() - started:.0f} s; comparing with a plain loop")
    return compare(result, read_totals(bootstrap, topics["totals"]), options)


def run_job(command: list[str], directory: str, count: int, *, kill_at: int | None) -> Any:
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


@contextmanager
def broker(data_dir: str) -> Iterator[str]:
    """A kwire process for the run: yields its bootstrap address."""
    command = [sys.executable, "-m", "kwire", "start", "--listen", "127.0.0.1:0", "--data-dir", data_dir]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.startswith("kwire ready "):
            raise SystemExit(f"the broker did not start (status {process.wait()})")
        yield dict(word.split("=", 1) for word in line.split()[2:])["bootstrap"]
    finally:
        process.terminate()
        process.wait(30)


def prepare_topics(bootstrap: str, topics: dict[str, str]) -> None:
    """Create the topics of a run and write the customers."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    keep = {"retention.ms": "-1"}  # the orders carry the times of the past: retention would delete them at once
    wanted = [NewTopic(topics["orders"], PARTITIONS, 1, config=keep), NewTopic(topics["customers"], 1, 1)]
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


def compare(result: dict[str, Any], totals: dict[str, list[int]], options: argparse.Namespace) -> int:
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
    }
    for what, holds in checks.items():
        say(f"{'equal' if holds else 'DIFFERENT':9}  {what}")
    return 0 if all(checks.values()) else 1


def say(line: str, end: str = "\n") -> None:
    """Progress, for people."""
    print(line, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
