"""A short run of `campaigns/sql/queries.py`, and the proof that it can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from campaigns.sql.queries import run
from harness.processes.brokers import Broker
from kwire.sql.topics.predicate import Predicate

MINUTE_MS = 60_000


def test_generated_queries_have_the_answers_of_a_plain_table(
    broker_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    found = run(broker_factory(), 25, seed=3, records=3000, folder=tmp_path)
    assert 0 < found.offsets < found.offsets_there


@pytest.mark.long_on_kafka
def test_the_campaign_notices_what_is_left_out_wrongly(
    broker_factory: Callable[..., Broker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earliest_ms = Predicate.earliest_ms

    def later(*arguments: object) -> int | None:
        found = earliest_ms(*arguments)  # type: ignore[arg-type]
        return None if found is None else found + MINUTE_MS

    monkeypatch.setattr(Predicate, "earliest_ms", later)
    with pytest.raises(AssertionError, match=r"query \d+ of seed 3 from"):
        run(broker_factory(), 100, seed=3, records=1500, folder=tmp_path)
