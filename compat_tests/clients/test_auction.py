"""The example of a producer in Ruby and a consumer in Java (`examples/auction`), as it is, on both brokers."""

from __future__ import annotations

import shutil
import subprocess
from ctypes.util import find_library

import pytest

from compat_tests.java_programs import java_program
from compat_tests.needs import need
from harness.paths import ROOT
from harness.processes.brokers import Broker

EXAMPLE = ROOT / "examples" / "auction"
BIDS = 2000
AUCTIONS = 7
TIMEOUT_S = 120


def missing() -> str | None:
    """What this machine lacks for the Ruby program; None if nothing."""
    command = ["ruby", "-e", "require 'ffi'"]
    if shutil.which("ruby") is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        return "needs Ruby with ffi (apt-get install ruby ruby-ffi)"
    return None if find_library("rdkafka") else "needs librdkafka (apt-get install librdkafka1)"


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def highest() -> list[str]:
    """What the consumer must print for the bids that the producer makes."""
    best: dict[str, tuple[int, str]] = {}
    for number in range(BIDS):
        auction, amount = f"auction-{number % AUCTIONS}", 100 + number * 7919 % 1009
        if amount > best.get(auction, (0, ""))[0]:
            best[auction] = amount, f"bidder-{number * 31 % 97}"
    return [f"{auction}: {amount} by {bidder}" for auction, (amount, bidder) in sorted(best.items())]


@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_java_consumer_finds_the_highest_of_the_bids_that_ruby_wrote(
    broker: Broker, topic: str, protocol: str
) -> None:
    need(missing())
    common = ["--bootstrap", broker.bootstrap, "--topic", topic, "--bids", str(BIDS)]
    written = run("ruby", str(EXAMPLE / "producer.rb"), *common, "--auctions", str(AUCTIONS))
    assert written == f"{BIDS} bids delivered\n"
    found = run(*java_program(EXAMPLE / "HighestBids.java", *common, "--protocol", protocol))
    assert found.splitlines() == highest()


def test_the_ruby_producer_names_the_error_that_stops_it(broker: Broker) -> None:
    need(missing())
    wrong = ["--topic", "no/such/name", "--bids", "100"]
    command = ["ruby", str(EXAMPLE / "producer.rb"), "--bootstrap", broker.bootstrap, *wrong]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    *_, last = done.stderr.splitlines()  # librdkafka logs into the lines before it
    assert last in (
        "the bids cannot be delivered: Broker: Invalid topic",
        "the bids cannot be delivered: Local: Unknown topic",
    )


def test_the_readme_names_every_file() -> None:
    text = (EXAMPLE / "README.md").read_text()
    names = {path.name for path in EXAMPLE.iterdir() if path.suffix in (".rb", ".java")}
    assert {name for name in names if name not in text} == set()
