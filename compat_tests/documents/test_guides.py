"""The pages for operators print what they show: COMMAND_LINE.md, CONSOLE.md, METRICS.md and OPERATIONS.md."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.documents import guides
from compat_tests.needs import need
from harness.processes.brokers import Broker, make_broker
from harness.processes.kwire_cluster import KwireCluster
from harness.processes.ports import free_port

NO_CURL = None if shutil.which("curl") else "curl is missing (apt-get install curl)"


def spaced(text: str) -> str:
    """With one space between columns: they are as wide as an address. Ports and directories are the test's."""
    text = re.sub(r"\b(localhost|127\.0\.0\.1):\d+", "HOST:PORT", text)
    return re.sub(r"[ \t]+", " ", re.sub(r"^/\S+/data:", "DIRECTORY:", text, flags=re.M))


def check_all(page: str, folder: Path, bootstrap: str, replaced: dict[str, str], least: int) -> None:
    guides.programs(folder)
    blocks = guides.blocks(page)
    assert len(blocks) >= least
    for commands, shown in blocks:
        guides.check(commands, shown, folder, bootstrap, replaced, spaced)


def kwire(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "kwire", *words], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KwireCluster]:
    """Three brokers, as OPERATIONS.md has them: a topic in all of them, and a group that has read a part of it."""
    made = KwireCluster(tmp_path_factory.mktemp("operations"))
    try:
        made.start()
        at = made.brokers[1].bootstrap
        kwire("topic", "create", "orders", "no-longer-needed", "--partitions", "3", "-b", at)
        records = made.home / "orders.txt"
        records.write_text("".join(f"order-{number}:{number}\n" for number in range(10)))
        kwire("produce", "orders", str(records), "-k", ":", "-b", at)
        kwire("consume", "orders", "--group", "billing", "-n", "10", "-b", at)
        yield made
    finally:
        made.kill()


def test_operations(cluster: KwireCluster, tmp_path: Path) -> None:
    """The last broker is gone from the section about it on, and its directory is what a backup copies."""
    guides.programs(tmp_path)
    broker = cluster.brokers[3]
    replaced = {"localhost:9092": cluster.brokers[1].bootstrap, "/var/lib/kwire/data": str(broker.data_dir)}
    replaced["/backup"] = str(tmp_path)
    blocks = guides.blocks("OPERATIONS.md")
    assert len(blocks) >= 5
    for commands, shown in blocks:
        if "kill -TERM PID" in commands:
            commands = commands.replace("kill -TERM PID\n", "").replace("/data\n", "/data 2> progress\n", 1)
            broker.stop()
        elif "unregister" in commands and broker.is_running():
            broker.stop()
        guides.check(commands, shown, tmp_path, cluster.brokers[1].bootstrap, replaced, spaced)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    """A broker of kwire without anything in it, with metrics."""
    made = make_broker("kwire", tmp_path / "broker", {"kwire.metrics.listen": f"localhost:{free_port()}"})
    made.start()
    yield made
    made.kill()


def test_command_line(own: Broker, tmp_path: Path) -> None:
    check_all("COMMAND_LINE.md", tmp_path, own.bootstrap, {}, 2)


def test_metrics(own: Broker, tmp_path: Path) -> None:
    need(NO_CURL)
    kwire("topic", "create", "orders", "-b", own.bootstrap)
    (tmp_path / "orders.txt").write_text("one\ntwo\n")
    kwire("produce", "orders", str(tmp_path / "orders.txt"), "-b", own.bootstrap)
    check_all("METRICS.md", tmp_path, own.bootstrap, {"localhost:9464": own.settings["kwire.metrics.listen"]}, 1)


def test_console(own: Broker, tmp_path: Path) -> None:
    """The HTTP API, as programs ask it."""
    need(NO_CURL)
    kwire("topic", "create", "orders", "--partitions", "3", "-b", own.bootstrap)
    command = [sys.executable, "-m", "kwire", "console", "--listen", "127.0.0.1:0", "-b", own.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        url, _, token = console.stdout.readline().strip().partition("url=")[2].partition("?token=")
        try:
            check_all("CONSOLE.md", tmp_path, own.bootstrap, {"http://127.0.0.1:9021/": url, "$TOKEN": token}, 1)
        finally:
            console.terminate()
