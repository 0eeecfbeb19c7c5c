"""How fast Spark reads a topic: by its own connector, by ``format("kwire")``, and from segment files.

    python -m tools.spark_releases.speed [--records 10000000] [--rounds 3] [--latency 30]

Each round runs all three in one warm session on all cores, in turn: the sum of the lengths of all values. With
``--latency`` a stream copies a topic at 1,000 records/s by Spark's connector and by kwire, and the time from a record
to its copy is measured. Medians are printed as a table, with the largest memory of one of Spark's Python processes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from kwire.testing import Kwire, KwireProcess

PARTITIONS = 4


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tools.spark_releases.speed", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--latency", type=float, default=0, metavar="SECONDS", help="also measure a stream for so long")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kwire-spark-speed-") as folder:
        data = Path(folder) / "data"
        with KwireProcess({"num.partitions": str(PARTITIONS)}, data_dir=data) as broker:
            topic = Kwire(broker).topic("speed", partitions=PARTITIONS)
            _fill(broker.bootstrap_servers, topic, arguments.records)
            spark = _session()
            frames = _frames(spark, broker.bootstrap_servers, data, topic)
            rates, memory = _batch(frames, arguments.records, arguments.rounds)
            for name, found in rates.items():
                rounds = ", ".join(f"{each / 1000:,.0f}" for each in found)
                print(f"{name:12} {statistics.median(found) / 1000:8,.0f} k rows/s   ({rounds})", flush=True)
            print(f"largest Python process: {memory / 1024:,.0f} MiB", flush=True)
            if arguments.latency:
                for name in ("kafka", "kwire"):
                    print(f"{name:12} {_latency(spark, broker.bootstrap_servers, name, arguments.latency)}", flush=True)
            spark.stop()
    return 0


def _session() -> Any:
    import kwire.spark

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    spark = kwire.spark.session("speed", master="local[*]", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _fill(bootstrap: str, topic: str, records: int) -> None:
    command = [sys.executable, "-m", "kwire", "bench", "produce", topic, "-n", str(records), "-b", bootstrap]
    done = subprocess.run([*command, "--timeout", "60"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr or done.stdout)


def _frames(spark: Any, bootstrap: str, data: Path, topic: str) -> dict[str, Any]:
    broker = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return {
        "connector": spark.read.format("kafka").options(**broker),
        "kwire": spark.read.format("kwire").options(**broker),
        "files": spark.read.format("kwire").options(path=str(data), subscribe=topic),
    }


def _batch(frames: dict[str, Any], records: int, rounds: int) -> tuple[dict[str, list[float]], int]:
    """Rows/s of each way and round, and KiB of the largest Python process."""
    rates: dict[str, list[float]] = {name: [] for name in frames}
    memory = 0
    time.sleep(6)  # until the high watermarks are in their checkpoint
    for turn in range(rounds + 1):
        for name, reader in frames.items():
            started = time.perf_counter()
            count = reader.load().selectExpr("count(*)", "sum(length(value))").collect()[0][0]
            took_s = time.perf_counter() - started
            if count != records:
                raise SystemExit(f"{name}: {count} rows of {records}")
            if turn:  # the first warms up
                rates[name].append(records / took_s)
            memory = max(memory, _largest())
    return rates, memory


def _largest() -> int:
    """KiB of the largest of Spark's Python processes."""
    sizes = [0]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                status = (folder / "status").read_text()
                sizes += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
        except OSError:
            continue
    return max(sizes)


def _latency(spark: Any, bootstrap: str, name: str, seconds: float) -> str:
    """Milliseconds from a record to its copy: median and 99th percentile."""
    from confluent_kafka import Consumer, Producer

    source, target = f"from-{name}", f"to-{name}"
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.produce(source, b"0")
    producer.produce(target, b"0")
    producer.flush(10)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source}
    stream = spark.readStream.format(name).options(**options).load().select("value").writeStream.format(name)
    with tempfile.TemporaryDirectory() as folder:
        sink = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": folder}
        query = stream.options(**sink).start()
        settings = {"bootstrap.servers": bootstrap, "group.id": name, "isolation.level": "read_committed"}
        consumer = Consumer(settings)
        consumer.subscribe([target])
        ended = threading.Event()

        def write() -> None:
            while not ended.is_set():
                producer.produce(source, b"%d" % time.time_ns())
                producer.poll(0)
                time.sleep(0.001)

        writer = threading.Thread(target=write)
        writer.start()
        found: list[float] = []
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            message = consumer.poll(1)
            # the first third warms up
            if message and not message.error() and time.monotonic() - started > seconds / 3:
                found.append((time.time_ns() - int(message.value() or 0)) / 1e6)
        ended.set()
        writer.join()
        query.stop()
        consumer.close()
    if len(found) < 100:
        return f"only {len(found)} records came"
    steps = statistics.quantiles(found, n=100)
    return f"p50 {steps[49]:,.0f} ms, p99 {steps[98]:,.0f} ms, {len(found) / seconds * 1.5:,.0f} records/s"


if __name__ == "__main__":
    sys.exit(main())
