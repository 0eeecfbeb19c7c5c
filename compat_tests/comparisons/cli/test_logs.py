"""``kwire log``: what it says of files that both brokers have written."""

from __future__ import annotations

from pathlib import Path

from compat_tests.comparisons.cli.conftest import Kwire
from harness.observations import Observations
from harness.processes.brokers import Broker

TIMES = ("timestamp", "max_timestamp", "crc", "producer_id", "file")


def test_files_of_both_are_dumped_and_verified(own_broker: Broker, tmp_path: Path, observe: Observations) -> None:
    kwire = Kwire(own_broker.bootstrap, tmp_path)

    def on(*words: str, stdin: str = "") -> str:
        done = kwire(*words, stdin=stdin)
        assert (done.status, done.err) == (0, "")
        return done.out

    on("topic", "create", "orders")
    kwire.until("orders", "topic", "list")
    on("produce", "orders", "-k", ":", "-H", "h=1", "-z", "gzip", stdin="a:1\nb:2\n")
    on("produce", "orders", "--no-idempotence", stdin="x\n\n")
    file = str(own_broker.data_dir / "orders-0" / "00000000000000000000.log")
    dumped = kwire("log", "dump", "--records", file, "-o", "json").json()
    observe("dumped", [{name: each for name, each in line.items() if name not in TIMES} for line in dumped])
    assert [line["value"] for line in dumped if "record" in line] == ["1", "2", "x", ""]
    own_broker.stop()
    rows = kwire("log", "verify", str(own_broker.data_dir), "--quiet", "--deep", "-o", "json").json()
    assert [set(each) for each in rows[:-1]] == [] and rows[-1]["findings"] == 0 and rows[-1]["records"] >= 4, rows


def test_topics_and_groups_of_the_cluster_complete_a_command(
    kwire: Kwire, broker: Broker, topic: str, observe: Observations
) -> None:
    kwire("topic", "create", topic)
    kwire.until(topic, "topic", "list")
    kwire("produce", topic, stdin="a\n")
    kwire("group", "seek", f"{topic}-group", "--topic", topic, "--to", "latest", "--execute")
    prefix = topic[:-1]
    for words in (["topic", "describe"], ["consume"], ["group", "lag"], ["config"]):
        observe(" ".join(words), kwire("__complete", "--", *words, "" if words == ["config"] else prefix))
    assert kwire("__complete", "--", "consume", topic).out == f"{topic}\n"
