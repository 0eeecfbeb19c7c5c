"""Measure what scrapes of the metrics endpoint cost producers.

    .venv/bin/python -m tools.measure_scrapes [--partitions 10000] [--seconds 20] [--rounds 3]

A broker with many partitions is written to with 1,000 records a second, in turns without and with a scrape every five
seconds. A line for each turn has the percentiles of the time from a record to its acknowledgement; the last one
compares the medians of the 99th percentiles. The exit status is 1 if scrapes make that 20 % longer or more.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from harness.processes.brokers import make_broker

RATE = 1000
EVERY_S = 5.0
ALLOWED = 1.2
_PER_TOPIC = 100


class Scraper:
    """Scrapes in the background. ``taken``: the seconds and bytes of each scrape."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.taken: list[tuple[float, int]] = []

    def __enter__(self) -> Scraper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            begun = time.perf_counter()
            with urllib.request.urlopen(self._url, timeout=60) as response:
                size = len(response.read())
            self.taken.append((time.perf_counter() - begun, size))


def produce(bootstrap: str, seconds: int) -> dict[str, Any]:
    """Write at the rate; the latencies in milliseconds."""
    command = [sys.executable, "-m", "kwire", "bench", "produce", "measured", "-b", bootstrap, "-o", "json"]
    command += ["--rate", str(RATE), "-n", str(RATE * seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    latencies: dict[str, Any] = json.loads(done.stdout)["latency_ms"]
    return latencies


def main() -> int:
    """Measure and print; 1 if scrapes are felt."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        broker = make_broker("kwire", Path(home), {"kwire.metrics.listen": "127.0.0.1:0"})
        broker.start()
        try:
            return measured(broker.bootstrap, broker.log_text(), arguments)
        finally:
            broker.stop()


def measured(bootstrap: str, log: str, arguments: argparse.Namespace) -> int:
    """The rounds on a running broker."""
    found = re.search(r'"url": "([^"]+)"', log)
    assert found is not None
    create = [sys.executable, "-m", "kwire", "topic", "create", "-b", bootstrap, "--timeout", "120"]
    subprocess.run([*create, "measured"], stdout=subprocess.DEVNULL, check=True)
    for number in range(arguments.partitions // _PER_TOPIC):
        subprocess.run([*create, f"t{number}", "-p", str(_PER_TOPIC)], stdout=subprocess.DEVNULL, check=True)
    produce(bootstrap, 3)
    p99: dict[str, list[float]] = {"without": [], "with": []}
    for number in range(arguments.rounds):
        without = produce(bootstrap, arguments.seconds)
        with Scraper(found[1]) as scraper:
            scraped = produce(bootstrap, arguments.seconds)
        for name, latencies in (("without", without), ("with", scraped)):
            p99[name].append(latencies["p99"])
            print(json.dumps({"round": number, "scrapes": name, **latencies}), flush=True)
        print(json.dumps({"scrapes_s": [round(each, 2) for each, _ in scraper.taken], "bytes": scraper.taken[-1][1]}))
    ratio = statistics.median(p99["with"]) / statistics.median(p99["without"])
    print(json.dumps({"p99_ratio": round(ratio, 3), "allowed": ALLOWED}))
    return int(ratio >= ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
