"""With flush.messages=1 the answer leaves after the sync, over a real socket (the mutant: `campaigns.mutants.logs`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.ack_order import watch


@pytest.mark.parametrize("on", ["topic", "broker"])
@pytest.mark.parametrize("acks", [-1, 1])
async def test_an_answer_waits_for_its_sync(tmp_path: Path, on: str, acks: int) -> None:
    assert await watch(tmp_path, on, acks) == []
