"""A short run of `campaigns/copying.py`: a topic is copied exactly once, in transactions, while copier and broker
are killed. kwire only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.copying import CLIENTS, Plan, run_campaign
from compat_tests.needs import need
from harness.kafka_jars import why_no_java

PLAN = Plan(
    records=1500, per_transaction=50, seed=5, client_kills=1, broker_kills=1, session_timeout_ms=1500, stall_s=300
)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_copy_is_the_original(client: str, broker_kind: str, tmp_path: Path) -> None:
    if broker_kind == "kafka":
        pytest.skip("what is tested here is kwire")
    if client.startswith("java"):
        need(why_no_java())
    (result,) = run_campaign(tmp_path, broker_kind, [[client]], PLAN)
    assert result["result"] == "equal", result
    assert (result["client_kills"], result["broker_kills"]) == (1, 1)
