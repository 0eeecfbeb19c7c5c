"""The pages about starting brokers print what they show: RUNNING.md, CLUSTER.md and ADOPTING.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.documents import guides
from compat_tests.documents.test_guides import kwire, spaced
from harness.processes.brokers import make_broker

CORES = 2
"""Of the machine that CLUSTER.md shows."""
TOOLS = {"kafka-features.sh": "org.apache.kafka.tools.FeatureCommand"}


class Pages:
    """Runs the commands of pages in a folder. A block of `kwire start` starts brokers, in place of those before; what
    is read and written in ``kwire-data`` has none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._brokers = guides.Brokers(folder / "log")
        self._replaced: dict[str, str] = {}
        guides.programs(folder)

    def run(self, page: str, least: int, replaced: dict[str, str] | None = None) -> None:
        """Run all blocks of a page. AssertionError if one fails or prints something else than the page shows."""
        self._replaced = dict(replaced or {})
        blocks = guides.blocks(page)
        assert len(blocks) >= least
        for commands, shown in blocks:
            if commands.startswith("kwire start"):
                self._start(commands, shown[0])
                continue
            if "kwire-data" in commands:
                self.stop()
            commands = re.sub(r"^(kwire adopt .*)", r"\1 2> progress", commands)
            address = self._replaced.get("localhost:9092", "")
            guides.check(commands, shown, self._folder, address, self._replaced, spaced)

    def _start(self, command: str, shown: str) -> None:
        self.stop()
        words = guides.put_in(command, self._replaced).split()
        home = self._folder
        if "--brokers" in words:
            home /= f"brokers-{words[-1]}"
            home.mkdir()
            cores = sorted(os.sched_getaffinity(0))[:CORES]
            words = ["taskset", "--cpu-list", ",".join(map(str, cores)), *words]
        environment = {**guides.environment(self._folder), "KAFKA_LISTENERS": "PLAINTEXT://localhost:0"}
        printed = self._brokers.start(words, home, environment)
        assert guides.pattern(spaced(shown)).fullmatch(spaced(printed)), printed
        addresses = printed.partition("bootstrap=")[2].split()[0].split(",")
        self._replaced.update({f"localhost:{9092 + number}": address for number, address in enumerate(addresses)})

    def stop(self) -> None:
        """Stop the brokers, if any run."""
        self._brokers.stop()


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    made = Pages(tmp_path)
    yield made
    made.stop()


def test_running(pages: Pages) -> None:
    pages.run("RUNNING.md", 4)


@pytest.mark.java
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < CORES, reason="one core: the page shows two")
def test_cluster(pages: Pages, tmp_path: Path) -> None:
    guides.programs(tmp_path, TOOLS)
    pages.run("CLUSTER.md", 4)


@pytest.mark.java
def test_adopting(pages: Pages, tmp_path: Path) -> None:
    kafka = make_broker("kafka", tmp_path / "kafka")
    kafka.start()
    try:
        at = kafka.bootstrap
        kwire("topic", "create", "orders", "--partitions", "3", "--config", "retention.ms=86400000", "-b", at)
        (tmp_path / "orders.txt").write_text("one\ntwo\n")
        kwire("produce", "orders", str(tmp_path / "orders.txt"), "-b", at)
        kwire("quota", "add", "--user", "alice", "producer_byte_rate=1048576", "-b", at)
        kafka.stop()
    finally:
        kafka.kill()
    (tmp_path / "server.properties").write_text("node.id=1\n")
    pages.run("ADOPTING.md", 2, {"/var/lib/kafka/data": str(kafka.data_dir)})
