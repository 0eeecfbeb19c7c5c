"""The simulation keeps its promises: much virtual time in little real time, and the same seed gives the same trace."""

from __future__ import annotations

import os
import subprocess
import sys

from harness.paths import ROOT
from harness.processor.cpu_time import CpuTime
from tests.simulation.scenario import run


def test_sixty_virtual_seconds_of_a_broker_and_its_clients_pass_in_under_one_second() -> None:
    run(0, 1)  # compiles the codec's functions
    with CpuTime() as spent:  # nothing waits here, so on a quiet machine this is real time
        simulation = run(1, 60)
    assert spent.seconds < 1
    assert simulation.elapsed_s >= 60
    assert simulation.trace.events > 1000


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    first, again, other = run(7, 10), run(7, 10), run(8, 10)
    assert first.trace.digest() == again.trace.digest()
    assert first.trace.events == again.trace.events
    assert first.trace.digest() != other.trace.digest()


def test_a_trace_does_not_depend_on_the_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-m", "tests.simulation.scenario", "3", "5"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert digests == {run(3, 5).trace.digest() + "\n"}
