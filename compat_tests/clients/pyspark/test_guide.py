"""docs/SPARK.md does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from harness.paths import ROOT
from harness.processes.brokers import Broker

pytestmark = pytest.mark.java
GUIDE = (ROOT / "docs" / "SPARK.md").read_text()


def test_the_first_query_of_the_guide_prints_what_it_says(
    spark: Any, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the tests' session, with topics and a checkpoint of its own."""
    import kwire.spark

    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (printed,) = re.findall(r"It prints `(.*?)`", GUIDE)
    monkeypatch.setattr(kwire.spark, "session", lambda *_, **__: spark, raising=False)
    own = {"localhost:9092": broker.bootstrap, "orders": f"{tmp_path.name}-orders", "/tmp": str(tmp_path)}
    for text, name in own.items():
        assert text in code
        code = code.replace(f'"{text}', f'"{name}').replace(f'loud-{text}"', f'loud-{name}"')
    exec(code, {})
    assert capsys.readouterr().out.splitlines()[-1] == printed


def test_every_pyspark_of_the_table_has_the_connector_that_it_names() -> None:
    from kwire.spark.sessions import connector

    rows = re.findall(r"^\| (4.*?) \| `(.*?)` \|$", GUIDE, re.MULTILINE)
    assert len(rows) == 3
    for versions, package in rows:
        for version in re.findall(r"[\d.]+", versions):
            assert connector(version) == package
