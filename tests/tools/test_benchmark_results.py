"""The results of `scripts/bench`: limits of kwire's own values, the table of TLS, and a record that is only renewed in
part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.benchmark import curves, results
from tools.benchmark.__main__ import all_workloads, with_recorded
from tools.benchmark.results import Line
from tools.benchmark.setups.secured import secured


def line_of(key: str, added_us: float) -> Line:
    """A line of TLS with one round on each broker."""
    workload = next(each for each in secured() if each.key == key)
    facts = {"rate": 500.0, "cpu_plain_us": 1000.0, "cpu_tls_us": 1000.0 + added_us, "cpu_added_us": added_us}
    return Line(workload, {"kwire": [facts], "kafka": [{**facts, "cpu_added_us": 1234.0}]})


def test_a_limit_is_of_the_median_whatever_the_other_broker_has() -> None:
    line = line_of("tls-consume", 650)
    for added_us in (720, 600):
        line.rounds["kwire"].append({"cpu_added_us": added_us})
    assert line.limits() == [("cpu_added_us", 650, 700.0, True)]
    missed = line_of("tls-consume", 750)
    assert results.verdict_table([missed]).endswith(
        "tls-consume        cpu_added_us          750.00  <= 700    MISSED\n"
    )
    missed.rounds["floor"] = [{"cpu_added_us": 12.5}]
    assert results.verdict_table([missed]).endswith("MISSED; the floor: 12.50\n")


def test_the_table_of_tls_has_both_prices_and_the_difference() -> None:
    row = results.text_table([line_of("tls-consume", 650)]).splitlines()[-1]
    assert " ".join(row.split()) == "MB consumed 1.00 ms 1.65 ms 650 us 1.00 ms 1.65 ms 1.23 ms 500 500"


def test_a_record_keeps_the_lines_that_were_not_measured(tmp_path: Path) -> None:
    earlier = [line_of("tls-consume", 650), line_of("tls-one-50", 8)]
    machine: dict[str, Any] = {"when": "2026-11-21 21:17:20 +0000", "cpu": "Xeon"}
    record = tmp_path / "benchmark.json"
    record.write_text(results.as_json(earlier, machine))
    lines = with_recorded([line_of("tls-one-50", 7)], record)
    assert [(each.workload.key, each.median("kwire", "cpu_added_us"), each.when, each.cpu) for each in lines] == [
        ("tls-consume", 650, machine["when"], "Xeon"),
        ("tls-one-50", 7, "", ""),
    ]


def test_the_record_says_on_which_machine_each_run_was() -> None:
    lines = []
    for key, cpu, day in (("tls-consume", "EPYC", 25), ("tls-one-50", "Xeon", 26), ("tls-one-1", "EPYC", 29)):
        line = line_of(key, 650)
        line.cpu, line.when = cpu, f"2026-11-{day} 15:38:28 +0000"
        lines.append(line)
    assert results.machines(lines) == "EPYC, 2026-11-25 15:38 and 2026-11-29 15:38; Xeon, 2026-11-26 15:38"


def test_workloads_have_different_keys() -> None:
    keys = [each.key for each in all_workloads()]
    assert len(keys) == len(set(keys))


def test_the_record_in_the_documents_is_one_of_todays_workloads() -> None:
    known = {each.key for each in all_workloads()}
    recorded = json.loads((Path(__file__).parents[2] / "docs/benchmark.json").read_text())
    assert set(recorded["lines"]) <= known


def test_curves_that_are_not_measured_stay_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(name: str, value: str) -> Callable[[], Iterator[curves.Row]]:
        def rows() -> Iterator[curves.Row]:
            yield {name: value}

        rows.__doc__ = f"how {name} grow"
        return rows

    text = tmp_path / "curves.txt"
    monkeypatch.setattr(curves, "CURVES", {"groups": measured("groups", "1"), "data": measured("MB", "10")})
    assert curves.main([], text) == 0
    monkeypatch.setitem(curves.CURVES, "groups", measured("groups", "2000"))
    assert curves.main(["groups"], text) == 0
    found = curves.sections(text.read_text())
    assert list(found) == ["groups", "data"]
    assert found["groups"].endswith("2000") and found["data"].endswith("10")
