"""A small run of the campaign of mixed load, and what it must notice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from campaigns.mixed_load import campaign as mixed_load
from campaigns.mixed_load.campaign import AtRest, Outcome
from campaigns.mixed_load.clients import Load
from harness.processes.secured import SecuredBroker, SecuredKwire

REST = AtRest(memory_mb=50.0, descriptors=40, threads=9, tasks=12)
LEVEL = Outcome(120.0, REST, REST, [1.0, 1.2, 0.9] * 10, {"records": 1}, [])


def test_a_small_run_finds_nothing(tmp_path: Path) -> None:
    outcome = mixed_load.run(0.1, tmp_path)
    assert outcome.failures == []
    assert {"records", "read", "memberships", "transactions", "topics"} <= outcome.done.keys()
    assert [each for each in mixed_load.complaints(outcome) if not each.startswith("memory")] == []


class LoadThatHangs(Load):
    """One client that ends, and one that waits for something that does not come."""

    def __init__(self, broker: SecuredBroker) -> None:
        super().__init__(broker, step_s_max=0.1)
        self.release = threading.Event()

    def work(self) -> dict[str, Callable[[], None]]:
        return {"ends": lambda: None, "hangs": self._wait_for_what_does_not_come}

    def _wait_for_what_does_not_come(self) -> None:
        self.release.wait()


def test_a_client_that_does_not_end_is_named_with_its_stack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # without gdb, which takes seconds
    load = LoadThatHangs(SecuredKwire(tmp_path))  # its broker does not run, which must not end the report
    load.start()
    load.stop()
    load.release.set()
    assert load.failures == ["no next step for 0.1 s, ending: hangs"]
    written = capsys.readouterr().err
    assert "thread hangs" in written
    assert "_wait_for_what_does_not_come" in written


def test_what_is_level_is_accepted() -> None:
    assert mixed_load.complaints(LEVEL) == []
    assert mixed_load.complaints(replace(LEVEL, late=replace(REST, memory_mb=52.4))) == []


@pytest.mark.parametrize(
    ("outcome", "complaint"),
    [
        (replace(LEVEL, late=replace(REST, memory_mb=52.6)), "memory grew from 50.0 to 52.6 MB, 52.5 are allowed"),
        (replace(LEVEL, late=replace(REST, descriptors=41)), "descriptors grew from 40 to 41"),
        (replace(LEVEL, late=replace(REST, tasks=13)), "tasks grew from 12 to 13"),
        (replace(LEVEL, p99_ms=[1.0] * 20 + [1.6] * 10), "the probe's p99 grew from 1.00 to 1.60 ms"),
        (replace(LEVEL, failures=["a record was not accepted"]), "a record was not accepted"),
    ],
)
def test_what_grows_is_a_complaint(outcome: Outcome, complaint: str) -> None:
    assert mixed_load.complaints(outcome) == [complaint]


def test_windows_have_the_p99_of_their_time() -> None:
    latencies = [(second / 100, 0.001 if second < 500 else 0.002) for second in range(1000)]
    assert mixed_load.windows(latencies, 2) == [1.0, 2.0]
    assert mixed_load.windows([], 2) == []
